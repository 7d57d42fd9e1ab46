"""`kpe demo events` and `kpe demo fleet` from beginning to end."""

import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from kafka_partition_events.demo.tour.lines import Lines
from kafka_partition_events.demo.tour.receiver import open_receiver
from kafka_partition_events.demo.tour.scenario import BROKERS, ORDERS, ORDERS_CAP, create_topics, play
from kafka_partition_events.demo.tour.traffic import Traffic
from kafka_partition_events.demo.tour.watcher import Received, Watcher, open_watcher
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.testing import KafkaCluster

POLL_S: Final = 15
"""How often exporters of metrics are scraped, as a rule."""


def run_events(console: Console) -> bool:
    """Play it, and show who received what.

    Returns:
        Whether the topic and the webhook received every event.
    """
    with _played(Lines(console)) as (_, watcher, received):
        snapshots = watcher.announcer.snapshots
    _show(console, {"the screen": received.screen, "kpe.events": received.topic, "webhook": received.webhook})
    counts = sorted(changes_seen(snapshots, POLL_S, first) for first in range(POLL_S))
    changes = sum(1 for (_, old), (_, new) in pairwise(snapshots) for _ in diff(old, new))
    console.print(
        f"\nA dashboard that polls the same metadata every {POLL_S} s sees {counts[len(counts) // 2]:,} "
        f"({counts[0]:,} - {counts[-1]:,}) of the {changes:,} changes in it, depending on when it polls, and "
        f"learns of them up to {POLL_S} s later.\nNo metadata has broker.suspected, broker.cleared and "
        "cap.reached: they come from the producer.\n",
        soft_wrap=True,
    )
    _say(console, received.alike, "every event reached the topic and the webhook", "events are MISSING")
    console.print("on your cluster (it only reads)   kpe watch -b HOST:9092", soft_wrap=True)
    return received.alike


def run_fleet(out: Path, console: Console) -> bool:
    """Play it, and let Spark make the tables and the report of the events in Kafka.

    Returns:
        Whether Spark took in every event that was shown, and found every outage.
    """
    from kafka_partition_events.demo.tour.fleet import starting_spark, write_report  # noqa: PLC0415

    lines = Lines(console)
    with starting_spark() as spark, _played(lines) as (bootstrap, watcher, received):
        lines.write("== Spark reads kpe.events, keeps tables, and writes the report")
        counts, outages = write_report(spark.result(), bootstrap, watcher.announcer.seen, out)
    offline = sum(name == "partition.offline" for name in received.screen.values())
    console.print(
        f"\nkpe.events: Spark took in {counts}; {len(received.screen):,} events were shown, and "
        f"{received.initial:,} name the state at the beginning.\nOutages of partitions: {outages:,} in the "
        f"report, {offline:,} were shown.\n",
        soft_wrap=True,
    )
    good = received.alike and counts.read == counts.good == len(received.topic) + received.initial
    good = good and 0 < outages == offline
    _say(console, good, "the report has every event and every outage", "the report does NOT agree")
    console.print(f"report: {out.resolve()}", soft_wrap=True)
    console.print("on your cluster   kpe spark fleet -b HOST:9092 --out /data/kpe --once", soft_wrap=True)
    return good


@contextlib.contextmanager
def _played(lines: Lines) -> Iterator[tuple[str, Watcher, Received]]:
    lines.write(f"== {BROKERS} brokers start")
    with KafkaCluster(BROKERS) as cluster, open_receiver() as hook:
        bootstrap = cluster.bootstrap_servers
        create_topics(cluster)
        with open_watcher(bootstrap, hook, lines) as watcher:
            budget = BufferBudget(max_partitions={ORDERS: ORDERS_CAP}, instance_id="kpe-demo")
            with contextlib.closing(Traffic(bootstrap, budget)) as traffic:
                watcher.follow(traffic.poller)
                play(cluster, traffic, lines)
            received = watcher.finish()
        yield bootstrap, watcher, received


def changes_seen(snapshots: Sequence[tuple[float, Cluster]], every_s: float, first_s: float) -> int:
    """Return how many changes polls of the cluster show, of which the first comes so long after the start."""
    moments = [moment for moment, _ in snapshots]
    known, at, seen = snapshots[0][1], moments[0] + first_s, 0
    while known is not snapshots[-1][1]:
        cluster = snapshots[bisect_right(moments, at) - 1][1]
        seen += sum(1 for _ in diff(known, cluster))
        known, at = cluster, at + every_s
    return seen


def _show(console: Console, receivers: Mapping[str, Mapping[str, str]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("event")
    for who in receivers:
        table.add_column(who, justify="right")
    counts = [Counter(events.values()) for events in receivers.values()]
    for name in dict.fromkeys(name for events in receivers.values() for name in events.values()):
        table.add_row(name, *(f"{count[name]:,}" for count in counts))
    table.add_row("all", *(f"{len(events):,}" for events in receivers.values()), style="bold")
    console.print()
    console.print(table)


def _say(console: Console, good: bool, fine: str, bad: str) -> None:
    console.print(f"Verdict: {fine if good else bad}.", style="green" if good else "red")
