"""A stored snapshot that somebody has changed is read as what it says, or not at all."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.events.snapshot_json import Snapshot, encode_snapshot
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events_listeners.journal import NODES, TOPIC, load_snapshot
from tests.outbox_kit import scratch_journal

NOTHING = json.dumps(
    encode_snapshot(Snapshot(evolve(EMPTY, generation=1), datetime(2026, 11, 23, tzinfo=UTC)))
)
ROWS = {"name": "orders", "topic_id": None, "partitions": [[1, 7, [1, 2], [1]], [None, None, [2], []]]}
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed(draw: st.DrawFn) -> Any:
    """Return the rows of a topic with something odd in a place of them."""
    rows = json.loads(json.dumps(ROWS))
    place: Any = rows
    while True:
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner) or draw(st.booleans()):
            place[key] = draw(ODD)
            return rows
        place = inner


@given(st.one_of(ODD, changed()))
def test_nothing_odd_comes_out_and_nothing_is_raised(topic: Any) -> None:
    outbox = scratch_journal()
    outbox.write(values={NODES: NOTHING.encode(), f"{TOPIC}orders": json.dumps(topic).encode()})
    found = load_snapshot(outbox)
    if found is None:
        return
    cluster, _ = found
    for info in cluster.by_topic.values():
        assert isinstance(info.name, str)
        for number, p in enumerate(info.partitions):
            assert (p.topic, p.partition) == (info.name, number)
            assert all(isinstance(each, int) for each in (*p.replicas, *p.isr))
            assert {type(p.leader), type(p.leader_epoch)} <= {int, bool, type(None)}


@pytest.mark.parametrize("rows", [ROWS, {**ROWS, "partitions": []}])
def test_what_was_written_comes_back(rows: Any) -> None:
    outbox = scratch_journal()
    outbox.write(values={NODES: NOTHING.encode(), f"{TOPIC}orders": json.dumps(rows).encode()})
    found = load_snapshot(outbox)
    assert found is not None
    partitions = found[0].by_topic["orders"].partitions
    assert [[p.leader, p.leader_epoch, [*p.replicas], [*p.isr]] for p in partitions] == rows["partitions"]
