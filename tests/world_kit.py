"""What lies in a journal, for tests of those who read one."""

from datetime import UTC, datetime, timedelta

from kafka_partition_events.events.cloudevents import to_cloudevent, to_entry
from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import Entry
from kafka_partition_events.testing.scripted import cluster_of
from tests.every_event import EVERY_EVENT

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)  # a Friday


def moment(seconds: float) -> datetime:
    """Return the moment so many seconds into a story."""
    return START + timedelta(seconds=seconds)


def real_entries() -> list[Entry]:
    """Return an event of each kind, and what a journal makes of a broker that led three partitions."""
    single = [to_entry(event, to_cloudevent(event, observer="a", recorded_at=START)) for event in EVERY_EVENT]
    found = diff(_led(2, 1), _led(None, 2), first_sequence=1, wall_time=moment(10), previous_at=moment(5))
    folded = fold([Observed(event=event, recorded_at=moment(10)) for event in found], observer="a")
    assert any(b".v2" in entry.body for entry in folded)
    return [*single, *folded]


def _led(leader: int | None, epoch: int) -> Cluster:
    partitions = [{"leader": leader, "replicas": [2], "isr": [2], "epoch": epoch}] * 3
    brokers = [1] if leader is None else [1, leader]
    return cluster_of({"orders": {"id": "id-1", "partitions": partitions}}, brokers, generation=epoch)  # type: ignore[dict-item]
