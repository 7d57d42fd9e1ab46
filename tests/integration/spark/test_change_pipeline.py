"""A real tracker's records through the pipeline: a row for each change is what the tracker has counted."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, define, evolve, field
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Change, Command, Given, Lease
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from kafka_partition_events.control.tracker.leadership import Leadership, TrackerConfig
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.ingest.sources import KafkaSource
from kafka_partition_events.spark.pipeline import Fleet, Pipeline
from kafka_partition_events.spark.tables.state import Taken
from kafka_partition_events.testing import KafkaCluster
from tests.control_kit import SAID, growth, lease
from tests.fleet_kit import rows, tables_of
from tests.waiting_kit import own_control_topics, waiting

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
LIMIT_S = 60.0


@define
class Place:
    """Control topics, a topic with six partitions, and instances that are told what to say."""

    cluster: KafkaCluster
    prefix: str
    topic: str
    events: str
    tenure: Leadership
    producer: Producer
    _seq: int = 0
    _written_ms: int = 0
    _born: dict[str, int] = field(factory=dict)

    def write(self, topic: str, key: str, value: bytes) -> int:
        """Write a record; return when it was appended."""
        at: list[int] = []
        self.producer.produce(
            f"{self.prefix}{topic}",
            value,
            key,
            on_delivery=lambda _, message: at.append(message.timestamp()[1]),
        )
        assert self.producer.flush(LIMIT_S) == 0
        self._written_ms = at[0]
        return at[0]

    def lives(self, name: str, seen: int = 6, **fields: Any) -> None:
        self._seq += 1
        record: Lease = lease(name, seen, lease_seq=self._seq, **fields)
        use = evolve(record.view[0], topic=self.topic, topic_id=None)
        record = evolve(record, view=(use,), born_ms=self._born.get(record.incarnation))
        at_ms = self.write("leases", key_of(record), encode(record))
        self._born.setdefault(record.incarnation, at_ms)

    def says(self, name: str, status: Status, **fields: Any) -> None:
        self.lives(name, **{**SAID[status], **fields})

    def rounds(self, until: Callable[[Change], bool], *commands: Command) -> Change:
        """Let the tracker work until its change is as it should be."""
        deadline = time.monotonic() + LIMIT_S
        given = [Given(command, n, self._written_ms + 1) for n, command in enumerate(commands)]
        while True:
            self.tenure.round(given)
            given = []
            change = self.tenure.ledger.changes["chg-1"]
            if until(change):
                return change
            assert time.monotonic() < deadline, change
            time.sleep(0.1)


@pytest.fixture
def place(kafka_cluster: KafkaCluster) -> Iterator[Place]:
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    prefix = own_control_topics(kafka_cluster.bootstrap_servers, waiting(LIMIT_S))
    topic = f"grown-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, 6)
    events = f"{prefix}events"
    kafka_cluster.create_topic(events, 1)
    with contextlib.closing(
        Leadership(TrackerConfig(config=config, prefix=prefix, policy=Policy()))
    ) as tenure:
        yield Place(kafka_cluster, prefix, topic, events, tenure, Producer(config))


@pytest.mark.weekly
def test_the_trackers_totals_are_in_the_table(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    for name in "abcd":
        place.lives(name)
    place.lives("gone", ttl_s=0.0)
    cluster_id = place.tenure.cluster_id
    spec = growth(cluster_id=cluster_id, topic=place.topic, topic_id=None)
    request = Command(change_id="chg-1", verb=Verb.REQUEST, actor="alice", spec=spec)
    place.rounds(lambda change: change.totals.pending == 4, request)
    place.lives("d", ttl_s=0.0)
    place.cluster.grow_topic(place.topic, 12)
    place.rounds(lambda change: change.state is State.CONVERGING)
    place.says("a", Status.APPLIED)
    place.write("changes", "chg-1|x", b"no record")
    place.write("changes", "chg-1|y", b'{"format": "kpe.change", "version": 7}')
    place.rounds(lambda change: change.totals.applied == 1)

    first = fill(spark, place, tmp_path)
    assert first.taken["control"] > 0
    tables = tables_of(spark, tmp_path)
    (told,) = rows(tables.read("gold/change_convergence"))
    assert (told["applied"], told["pending"]) == (1, 2)
    defects = [row["defect"] for row in rows(tables.read("silver/changes").where("defect IS NOT NULL"))]
    assert sorted(defects) == ["unknown", "unparsed"]

    place.lives("b", incarnation="b-2", seen=12)
    place.says("c", Status.CAPPED)
    last = place.rounds(lambda change: change.state.final)
    fill(spark, place, tmp_path)
    tables = tables_of(spark, tmp_path)
    (row,) = rows(tables.read("gold/change_convergence"))
    assert (row["state"], row["final"]) == (last.state, True)
    assert {name: row[name] for name in asdict(last.totals)} == asdict(last.totals)
    with pytest.raises(SparkJobError, match=r"other\.changes at .*does the topic exist\?.*\(org\.apache"):
        fill(spark, evolve(place, prefix="other."), tmp_path)


def fill(spark: SparkSession, place: Place, out: Path) -> Taken:
    """Take in what there is, as ``kpe spark fleet --once --control-prefix PREFIX`` does."""
    bootstrap = place.cluster.bootstrap_servers
    events = KafkaSource(bootstrap=bootstrap, topic=place.events)
    control = KafkaSource(bootstrap=bootstrap, topic=f"{place.prefix}changes")
    return Pipeline(spark, Fleet(out=str(out))).run_once(events, control)
