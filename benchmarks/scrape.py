"""One scrape at 200,000 partitions in 5,000 topics, beside gauges for each partition."""

import time

from attrs import asdict, frozen
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from benchmarks.measure import Pair, Spread, interleaved, save
from benchmarks.metadata import BROKERS, PARTITIONS, TOPICS, observation
from kafka_partition_events import EMPTY, Cluster, MetadataPoller
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events_listeners.prometheus_listener import PrometheusListener
from kafka_partition_events_listeners.prometheus_snapshot import Granularity

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

    def __init__(self, poller: MetadataPoller, granularity: Granularity) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.listener = PrometheusListener(
            poller,
            registry=self.registry,
            granularity=granularity,
            max_topics=TOPICS,
            max_partitions=TOPICS * PARTITIONS,
        )

    def first(self) -> float:
        """Return the CPU seconds of the first scrape after a change."""
        self.listener._built = None  # noqa: SLF001 - as a new snapshot would
        return self.again()

    def again(self) -> float:
        """Return the CPU seconds of a scrape without a change."""
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
    poller = MetadataPoller(ScriptedSource(observation(0.0, changed=False)))
    poller.poll_once()
    by_topic = Listener(poller, "topic")
    again = interleaved(by_topic.again, by_topic.first, pairs)
    # Made only now: the garbage collector goes through their millions of objects in our measurements too.
    by_partition = Listener(poller, "partition")
    partition = interleaved(by_topic.first, by_partition.first, pairs)
    gauges = Gauges(poller.cluster or EMPTY)
    plain = interleaved(by_topic.first, gauges.first, pairs)
    sizes = {
        "topic": Exposition.of(generate_latest(by_topic.registry)),
        "partition": Exposition.of(generate_latest(by_partition.registry)),
        "gauges": Exposition.of(generate_latest(gauges.registry)),
    }

    def row(name: str, cost: Spread, size: Exposition, pair: Pair | None) -> list[str]:
        ratio = "-" if pair is None else pair.ratio.text(1)
        return [name, f"{cost.text(3)} s", f"{size.series:,}", f"{size.megabytes:.1f}", ratio]

    rows = [
        row("by topic, first scrape after a change", again.b, sizes["topic"], None),
        row("by topic, without a change", again.a, sizes["topic"], None),
        row("by partition, first scrape after a change", partition.b, sizes["partition"], partition),
        row("gauges of the client library, set and scraped", plain.b, sizes["gauges"], plain),
    ]
    save(
        "scrape",
        f"One scrape at {TOPICS * PARTITIONS:,} partitions ({TOPICS:,} topics, {BROKERS} brokers, RF 3)",
        ["what", "CPU time", "series", "MB", "times the first"],
        rows,
        {
            "again": asdict(again),
            "by_partition": asdict(partition),
            "gauges": asdict(plain),
            "sizes": {name: asdict(size) for name, size in sizes.items()},
        },
    )
    verdict = "kept" if max(plain.a.high, partition.a.high, again.b.high) < LIMIT_S else "NOT kept"
    print(f"the limit of {LIMIT_S} s for a scrape by topic is {verdict}")


if __name__ == "__main__":
    main()
