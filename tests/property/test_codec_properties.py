"""Any event survives its JSON."""

import json
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.events.event_json import decode_event, encode_event
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo, TopicPartition
from tests.property.worlds import EPOCHS, LEADERS, SETS, snapshots, topic_infos

TOPIC = "orders"
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers()
TIMES = st.datetimes(timezones=st.just(UTC))
COUNTS = st.none() | st.integers()
PARTITIONS = st.builds(PartitionInfo, st.just(TOPIC), st.integers(0, 9), LEADERS, SETS, SETS, EPOCHS)
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(),
    str: st.just(TOPIC) | st.text(),
    float: NUMBERS,
    datetime: TIMES,
    int | None: st.none() | st.integers(),
    str | None: st.none() | st.text(),
    float | None: st.none() | NUMBERS,
    datetime | None: st.none() | TIMES,
    tuple[int, ...]: st.lists(st.integers()).map(tuple),
    tuple[ev.BrokerLoad, ...]: st.lists(
        st.builds(
            ev.BrokerLoad,
            broker=st.integers(),
            rack=st.none() | st.text(),
            leaders=st.integers(),
            replicas=st.integers(),
            offline_replicas=st.integers(),
        )
    ).map(tuple),
    ev.Rejection: st.sampled_from(ev.Rejection),
    ev.Suspicion: st.sampled_from(ev.Suspicion),
    ev.Clearance: st.sampled_from(ev.Clearance),
    ev.Role: st.sampled_from(ev.Role),
    tuple[TopicPartition, ...]: st.lists(st.builds(TopicPartition, st.text(), st.integers())).map(tuple),
    Node: st.builds(Node, st.integers(), st.text(), st.integers(), st.none() | st.text()),
    PartitionInfo: PARTITIONS,
    TopicInfo: topic_infos(TOPIC),
    Cluster: snapshots(),
}


def events(cls: type[ev.Event]) -> st.SearchStrategy[ev.Event]:
    """Draw an event with arbitrary fields; its partitions are of its topic, as everywhere."""
    fields = {f.name: FIELDS[f.type] for f in attrs.fields(cls) if f.name != "observed_at"}
    if issubclass(cls, ev.PartitionEvent):
        fields["topic"] = st.just(TOPIC)
    return st.builds(cls, **fields)


@pytest.mark.parametrize("cls", ev.EVENT_TYPES)
@given(st.data())
def test_an_event_survives_the_round_trip(cls: type[ev.Event], data: st.DataObject) -> None:
    event = data.draw(events(cls))
    back = decode_event(json.loads(json.dumps(encode_event(event))))
    assert back == event
    assert type(back) is cls
    if isinstance(event, ev.Resync) and isinstance(back, ev.Resync):  # what equality passes over
        assert back.cluster.cluster_id == event.cluster.cluster_id
        assert back.cluster.generation == event.cluster.generation
