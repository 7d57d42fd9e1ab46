"""Any snapshot survives its JSON; one in a journal that was changed there is read as it says, or not."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.events.snapshot_json import Snapshot, decode_snapshot, encode_snapshot
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events_listeners.journal import NODES, TOPIC, load_snapshot
from tests.control_kit import damaged
from tests.outbox_kit import scratch_journal
from tests.property.worlds import snapshots

NOTHING = json.dumps(
    encode_snapshot(Snapshot(evolve(EMPTY, generation=1), datetime(2026, 11, 23, tzinfo=UTC)))
)
ROWS = {"name": "orders", "topic_id": None, "partitions": [[1, 7, [1, 2], [1]], [None, None, [2], []]]}
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
DAMAGED = st.builds(damaged, st.just(ROWS), st.lists(st.integers(0, 11), min_size=1, max_size=4), ODD)


@given(snapshots(), st.none() | st.datetimes(timezones=st.just(UTC)))
def test_a_snapshot_survives_the_round_trip(cluster: Cluster, taken_at: datetime | None) -> None:
    back = decode_snapshot(json.loads(json.dumps(encode_snapshot(Snapshot(cluster, taken_at)))))
    assert back == Snapshot(cluster, taken_at)
    assert (back.cluster.cluster_id, back.cluster.generation) == (cluster.cluster_id, cluster.generation)


@given(st.one_of(ODD, DAMAGED))
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
