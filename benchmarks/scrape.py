"""One scrape at 200,000 partitions in 5,000 topics, beside gauges for each partition."""

import time

from attrs import asdict, frozen
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from benchmarks.events.dispatching import Prepared
from benchmarks.events.world import BROKERS, PARTITIONS, TOPICS
from benchmarks.measure import Pair, Spread, interleaved, save
from kafka_partition_events import EMPTY, Cluster, MetadataPoller
from kafka_partition_events_listeners.prometheus.listener import PrometheusListener

LIMIT_S = 1.0


@frozen
class Exposition:
    """What a scrape returns."""

    series: int
    megabytes: float

    @classmethod
    def of(cls, text: bytes) -> "Exposition":
        return cls(sum(not line.startswith(b"#") for line in text.splitlines()), len(text) / 1e6)


class Listener:
    """The listener, with nothing kept out."""

    def __init__(self, poller: MetadataPoller) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.listener = PrometheusListener(poller, registry=self.registry, max_topics=TOPICS)

    def scrape(self) -> float:
        """Return the CPU seconds of a scrape."""
        return scrape_seconds(self.registry)


class Gauges:
    """What is made of the client library's own gauges: three for each partition, set at each snapshot."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.registry = CollectorRegistry()
        self.leader, self.replicas, self.isr = (
            Gauge(name, name, ("kafka_cluster", "topic", "partition"), registry=self.registry)
            for name in ("leader", "replicas", "in_sync_replicas")
        )

    def first(self) -> float:
        """Return the CPU seconds of setting them and of a scrape."""
        began = time.thread_time()
        for info in self.cluster.by_topic.values():
            for p in info.partitions:
                labels = ("bench", p.topic, str(p.partition))
                self.leader.labels(*labels).set(-1 if p.leader is None else p.leader)
                self.replicas.labels(*labels).set(len(p.replicas))
                self.isr.labels(*labels).set(len(p.isr))
        return time.thread_time() - began + scrape_seconds(self.registry)


def scrape_seconds(registry: CollectorRegistry) -> float:
    began = time.thread_time()
    generate_latest(registry)
    return time.thread_time() - began


def main(*, quick: bool = False) -> None:
    pairs = 2 if quick else 7
    source = Prepared()
    poller = MetadataPoller(source)
    poller.poll_once()
    by_topic = Listener(poller)

    def first() -> float:
        afresh = Listener(poller)
        took = afresh.scrape()
        afresh.listener.close()  # no later one must carry its hundreds of megabytes along
        return took

    def after_loss() -> float:
        source.prepare()
        poller.poll_once()
        return by_topic.scrape()

    again = interleaved(by_topic.scrape, after_loss, pairs)
    changed = interleaved(first, after_loss, pairs)
    # Made only now: the garbage collector goes through its millions of objects in our measurements too.
    gauges = Gauges(poller.cluster or EMPTY)
    plain = interleaved(first, gauges.first, pairs)
    sizes = {
        "topic": Exposition.of(generate_latest(by_topic.registry)),
        "gauges": Exposition.of(generate_latest(gauges.registry)),
    }

    def row(name: str, cost: Spread, size: Exposition, pair: Pair | None) -> list[str]:
        ratio = "-" if pair is None else pair.ratio.text(1)
        return [name, f"{cost.text(3)} s", f"{size.series:,}", f"{size.megabytes:.1f}", ratio]

    rows = [
        row("by topic, the first scrape of all", changed.a, sizes["topic"], None),
        row("by topic, after a loss: 6,000 partitions in 400 topics", changed.b, sizes["topic"], changed),
        row("by topic, without a change", again.a, sizes["topic"], None),
        row("gauges of the client library, set and scraped", plain.b, sizes["gauges"], plain),
    ]
    save(
        "scrape",
        f"One scrape at {TOPICS * PARTITIONS:,} partitions ({TOPICS:,} topics, {BROKERS} brokers, RF 3)",
        ["what", "CPU time", "series", "MB", "times the first"],
        rows,
        {
            "again": asdict(again),
            "changed": asdict(changed),
            "gauges": asdict(plain),
            "sizes": {name: asdict(size) for name, size in sizes.items()},
        },
    )
    worst = max(spread.high for spread in (plain.a, changed.a, changed.b))
    verdict = "kept" if worst < LIMIT_S else "NOT kept"
    print(f"the limit of {LIMIT_S} s for a scrape by topic is {verdict}")


if __name__ == "__main__":
    main()
