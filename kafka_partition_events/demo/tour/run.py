"""`kpe demo events` and `kpe demo fleet` from beginning to end."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.demo.tour.lines import Lines
from kafka_partition_events.demo.tour.receiver import open_receiver
from kafka_partition_events.demo.tour.scenario import BROKERS, ORDERS, ORDERS_CAP, create_topics, play
from kafka_partition_events.demo.tour.traffic import open_traffic
from kafka_partition_events.demo.tour.watcher import Told, Watcher, open_watcher
from kafka_partition_events.jvm import JAVA_MISSING, java
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.testing import KafkaCluster

SCRAPE_S: Final = 15.0
"""How often exporters of metrics are asked, as a rule."""


def run_events(console: Console) -> bool:
    """Play it, and show who was told what.

    Returns:
        Whether everybody was told everything.
    """
    with _played(Lines(console)) as (_, watcher, told):
        kinds = Counter(event.kind for event in watcher.announcer.seen)
        scraped = sum(_between(watcher.announcer.snapshots, SCRAPE_S).values())
        from_metadata = sum(_between(watcher.announcer.snapshots, 0.0).values())
    console.print(
        f"\n{', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}\n", soft_wrap=True
    )
    console.print(
        f"{told.shown:,} events: {told.published:,} went to the topic kpe.events, {told.posted:,} to a hook. "
        f"A look at the metadata every {SCRAPE_S:.0f} s, as dashboards have it, shows {scraped:,} of "
        f"{from_metadata:,} changes in it; and nothing of what the producer found out by itself.",
        soft_wrap=True,
    )
    console.print("on your cluster (it only reads)   kpe watch -b HOST:9092", soft_wrap=True)
    return told.shown == told.published == told.posted and not told.lost


def run_fleet(out: Path, console: Console) -> bool:
    """Play it, and let Spark make the tables and the report of the events in Kafka.

    Returns:
        Whether every event was published.
    """
    from kafka_partition_events.demo.tour.fleet import starting_spark, write_report  # noqa: PLC0415

    lines = Lines(console)
    with _played(lines) as (bootstrap, watcher, told), starting_spark() as spark:
        lines.write(f"== Spark makes tables of kpe.events, then writes {out}")
        lines.write(write_report(spark.result(), bootstrap, watcher.announcer.seen, out))
    console.print(f"report: {out.resolve()}", soft_wrap=True)
    console.print("on your cluster   kpe spark fleet -b HOST:9092 --out /data/kpe --once", soft_wrap=True)
    return told.shown == told.published and not told.lost


@contextlib.contextmanager
def _played(lines: Lines) -> Iterator[tuple[str, Watcher, Told]]:
    if java() is None:
        raise CliError(f"{JAVA_MISSING}, and the demo runs real brokers: install it, or set JAVA_HOME")
    lines.write("== three brokers start")
    with KafkaCluster(BROKERS) as cluster, open_receiver() as hook:
        bootstrap = cluster.bootstrap_servers
        create_topics(cluster)
        with open_watcher(bootstrap, hook, lines) as watcher:
            budget = BufferBudget(max_partitions={ORDERS: ORDERS_CAP}, instance_id="kpe-demo")
            with open_traffic(bootstrap, budget) as traffic:
                watcher.follow(traffic.poller)
                play(cluster, traffic, lines)
            told = watcher.finish()
        yield bootstrap, watcher, told


def _between(snapshots: Sequence[tuple[float, Cluster]], every_s: float) -> "Counter[str]":
    """Return which changes are to be seen between looks at the cluster every so many seconds."""
    found: Counter[str] = Counter()
    at, known = snapshots[0]
    for place, (moment, cluster) in enumerate(snapshots):
        last = place + 1 == len(snapshots)
        following = time.monotonic() if last else snapshots[place + 1][0]
        if following >= at + every_s or last:
            found.update(event.kind for event in diff(known, cluster))
            known = cluster
            at = max(at + every_s, moment)
    return found
