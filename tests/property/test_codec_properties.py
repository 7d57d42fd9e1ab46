"""Any snapshot survives its JSON."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.events.snapshot_json import Snapshot, decode_snapshot, encode_snapshot
from kafka_partition_events.metadata.cluster import Cluster
from tests.property.worlds import snapshots


@given(snapshots(), st.none() | st.datetimes(timezones=st.just(UTC)))
def test_a_snapshot_survives_the_round_trip(cluster: Cluster, taken_at: datetime | None) -> None:
    back = decode_snapshot(json.loads(json.dumps(encode_snapshot(Snapshot(cluster, taken_at)))))
    assert back == Snapshot(cluster, taken_at)
    assert (back.cluster.cluster_id, back.cluster.generation) == (cluster.cluster_id, cluster.generation)
