"""The second lane on a real Kafka: what a person on call is told while brokers restart and die."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events import MetadataPoller
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.events.entries import to_entry
from kafka_partition_events.incidents import IncidentReader, Suppressed
from kafka_partition_events.incidents.reducer import Standing
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.outbox import Entry, Journal, Stream, Write
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events_listeners.cloudevents_listener import CloudEventsListener

pytestmark = pytest.mark.kafka

LIMIT_S = 90.0
"""For what is told after a hold-down: 30 s by default, and this machine may be busy."""
SINK = "on call"


class Journaling(CloudEventsListener):
    """Writes each event to an outbox."""

    def __init__(self, outbox: Journal) -> None:
        super().__init__()
        self.outbox = outbox

    def on_cloudevent(self, event: Event, cloudevent: CloudEvent) -> None:
        self.outbox.write(Write(entries=[to_entry(event, cloudevent)]))


@frozen
class OnCall:
    """Somebody who is told what comes out of the second lane."""

    cluster: KafkaCluster
    outbox: Journal
    poller: MetadataPoller
    reader: IncidentReader

    def told(self) -> list[Entry]:
        return list(self.outbox.read(SINK, 1000))

    def names(self) -> list[str]:
        return [entry.name for entry in self.told()]

    def wait_for(self, what: str, is_so: Callable[[], bool], limit: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit
        while not is_so():
            assert time.monotonic() < deadline, f"not within {limit:.0f} s: {what}; told: {self.names()}"
            time.sleep(0.1)

    def all_is_well(self) -> bool:
        snapshot = self.poller.cluster
        return (
            snapshot is not None
            and len(snapshot.nodes) == len(self.cluster.brokers)
            and all(p.online for info in snapshot.by_topic.values() for p in info.partitions)
            and self.reader.stats.standing == Standing()
        )


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    cluster = own_kafka_cluster(brokers=3, session_timeout_ms=3000)
    cluster.create_topic("orders", 6, replication_factor=3)
    cluster.create_topic("single", assignment={p: [p % 3 + 1] for p in range(6)})
    return cluster


@pytest.fixture
def on_call(cluster: KafkaCluster, tmp_path: Path) -> Iterator[OnCall]:
    """The reader has the default rules. The poller looks more often, so that it sees every restart."""
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    outbox.subscribe(SINK, Stream.INCIDENTS)
    poller = MetadataPoller(ConfluentMetadataSource(cluster.confluent_options), interval=0.5)
    try:
        poller.register(Journaling(outbox))
        with poller, IncidentReader(outbox) as reader:
            on_call = OnCall(cluster, outbox, poller, reader)
            on_call.wait_for("three brokers and nothing offline", on_call.all_is_well)
            yield on_call
    finally:
        outbox.close()


def data(entry: Entry) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(entry.body)["data"]
    return parsed


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_rolling_restart_raises_nothing_by_default(cluster: KafkaCluster, on_call: OnCall) -> None:
    away = []
    for broker in cluster.brokers:
        began = time.monotonic()
        cluster.stop(broker)
        cluster.restart(broker)
        away.append(round(time.monotonic() - began))
        on_call.wait_for(f"broker {broker} is back; away for {away} s", on_call.all_is_well)
    assert on_call.names() == [], f"away for {away} s, and the hold-down is 30 s"
    # It has seen all three go, each with the two partitions that have no other replica.
    assert on_call.reader.stats.suppressed[Suppressed.DEBOUNCED] == 9


def test_a_killed_broker_is_one_incident_that_ends_when_it_is_back(
    cluster: KafkaCluster, on_call: OnCall
) -> None:
    cluster.kill(2)
    on_call.wait_for("an incident", lambda: on_call.names() == ["incident.opened"])
    (opened,) = on_call.told()
    assert data(opened)["cause"] == {"broker": 2}
    assert data(opened)["offline"] == {"single": "1,4"}
    assert data(opened)["gone"]
    down_for = moment(data(opened)["opened_at"]) - moment(data(opened)["began"]["by"])
    assert down_for >= timedelta(seconds=30), "the default"

    cluster.restart(2)
    on_call.wait_for("all is well", on_call.all_is_well)
    assert on_call.names() == ["incident.opened", "incident.closed"]
    closed = on_call.told()[-1]
    assert data(closed)["incident_id"] == data(opened)["incident_id"]
    assert data(closed)["partitions"] == {"single": "1,4"}
    assert data(closed)["began"]["by"] < data(closed)["ended"]["after"]
