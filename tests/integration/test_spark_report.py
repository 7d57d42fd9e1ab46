"""The report, from a real Kafka through Spark's own connector to the HTML file."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from kafka_partition_events.events.names import NAMES
from kafka_partition_events.listeners import to_cloudevent, to_record
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.job import main, run_report
from kafka_partition_events.spark.model import Outage, Phase, ReportData
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.scripted import PartitionSpec, cluster_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Story:
    """What observers publish of one topic: looks at the cluster, at times in seconds."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.values: list[bytes] = []
        self.up = self._snapshot((1, 0), (2, 0), (3, 0))
        self.down = self._snapshot((1, 0), (None, 1), (3, 0), brokers=(1, 3))
        self.back = self._snapshot((1, 0), (2, 2), (3, 0))
        self.grown = self._snapshot((1, 0), (2, 2), (3, 0), (1, 0))
        self.again = self._snapshot((None, 0), (2, 0), topic_id="again")

    def _snapshot(
        self, *leaders: tuple[int | None, int], brokers: tuple[int, ...] = (1, 2, 3), topic_id: str = "id"
    ) -> Cluster:
        partitions: list[PartitionSpec] = [{"leader": leader, "epoch": epoch} for leader, epoch in leaders]
        return cluster_of({self.topic: {"id": f"{self.topic}-{topic_id}", "partitions": partitions}}, brokers)

    def look(self, old: Cluster, new: Cluster, before: float | None, seen: float, **how: Any) -> "Story":
        for event in diff(
            old,
            new,
            first_sequence=len(self.values) + 1,
            wall_time=at(seen),
            previous_at=None if before is None else at(before),
            initial=before is None,
        ):
            self.tell(event, **how)
        return self

    def tell(self, event: ev.Event, **how: Any) -> None:
        self.values.append(to_record(to_cloudevent(event, **how)).value)


def frame(spark: "SparkSession", *values: bytes | None) -> "DataFrame":
    return spark.createDataFrame([(value,) for value in values], "value BINARY")


# -- what follows from events, without Kafka -------------------------------------------------------------


def stories() -> list[Story]:
    plain = Story("plain")
    plain.look(EMPTY, plain.up, None, 0).look(plain.up, plain.down, 8, 10).look(
        plain.down, plain.back, 20, 23
    )

    two = Story("two observers")
    two.look(EMPTY, two.up, None, 0, observer="a").look(EMPTY, two.up, None, 1, observer="b")
    two.look(two.up, two.down, 5, 10, observer="a").look(two.up, two.down, 9, 12, observer="b")
    two.look(two.down, two.back, 20, 30, observer="a").look(two.down, two.back, 24, 28, observer="b")

    restart = Story("observers that start")
    restart.look(EMPTY, restart.up, None, 0, observer="a").look(restart.up, restart.down, 8, 10, observer="a")
    restart.look(EMPTY, restart.down, None, 40, observer="b").look(
        EMPTY, restart.back, None, 60, observer="c"
    )

    censored = Story("censored").look(EMPTY, Story("censored").down, None, 10)
    censored.tell(ev.MetadataUnavailable(error="x", wall_time=at(75), cluster_id="test"))

    again = Story("created again")
    again.look(EMPTY, again.up, None, 0).look(again.up, again.down, 8, 10)
    again.look(again.down, again.again, 19, 20)
    return [plain, two, restart, censored, again]


@pytest.fixture(scope="module")
def told(spark: "SparkSession") -> ReportData:
    """The report on all stories at once: one computation takes as long as five."""
    from kafka_partition_events.spark.collect import collect  # noqa: PLC0415

    return collect(frame(spark, *(value for story in stories() for value in story.values)), None)


def outages(told: ReportData, topic: str) -> list[Outage]:
    return [outage for outage in told.outages if outage.topic == topic]


def test_an_outage_has_bounds_on_both_ends(told: ReportData) -> None:
    (outage,) = outages(told, "plain")
    assert (outage.partition, outage.ended_with) == (1, "partition.online")
    assert (outage.span.began_after, outage.span.began_by) == (at(8), at(10))
    assert (outage.span.ended_after, outage.span.ended_by) == (at(20), at(23))
    assert (outage.span.shortest_s, outage.span.longest_s) == (10, 15)


def test_a_second_observer_narrows_the_bounds_and_makes_no_second_outage(told: ReportData) -> None:
    (outage,) = outages(told, "two observers")
    assert (outage.span.began_after, outage.span.began_by) == (at(9), at(10))
    assert (outage.span.ended_after, outage.span.ended_by) == (at(24), at(28))
    assert told.quality.doubles > 0


def test_an_observer_that_starts_after_the_end_still_ends_the_outage(told: ReportData) -> None:
    (outage,) = outages(told, "observers that start")
    assert (outage.span.ended_after, outage.span.ended_by) == (at(10), at(60))
    assert outage.ended_with == "topic.created"


def test_what_nobody_saw_begin_or_end_lasted_at_least(told: ReportData) -> None:
    (outage,) = outages(told, "censored")
    assert outage.span.began_after is None
    assert outage.span.open
    assert (outage.span.shortest_s, outage.span.longest_s) == (65, None)


def test_a_re_created_topic_ends_its_outages_and_begins_new_ones(told: ReportData) -> None:
    assert [(o.partition, o.span.open, o.ended_with) for o in outages(told, "created again")] == [
        (1, False, "topic.recreated"),
        (0, True, None),
    ]
    assert told.replaced == {"created again"}


def test_a_broker_is_absent_from_when_it_left_until_it_joined(told: ReportData) -> None:
    assert {absence.broker for absence in told.absences} == {2}
    assert told.absences[0].span.began_by == at(10)
    assert [c.name for c in told.changes if c.topic is None and c.by == at(23)] == ["broker.joined"]


def test_every_event_that_the_listener_writes_is_understood(spark: "SparkSession") -> None:
    from kafka_partition_events.spark import events  # noqa: PLC0415

    parsed = events.parsed(frame(spark, *(value for story in stories() for value in story.values)))
    assert parsed.where("defect IS NOT NULL").count() == 0
    assert set(events.NAMES) == NAMES | set(events.BODIES)


def test_records_that_are_no_events_are_counted(spark: "SparkSession") -> None:
    from kafka_partition_events.spark import events  # noqa: PLC0415

    story = Story("orders")
    story.look(story.up, story.down, 8, 10)
    newer = json.loads(story.values[0]) | {"type": "x.partition.offline.v3"}
    junk = (b"not json", b"{}", b"\xff", None, json.dumps(newer).encode())
    (row,) = events.quality(events.parsed(frame(spark, *junk, *story.values, *story.values))).collect()
    assert row.asDict() == {"read": 9, "unparsed": 4, "unknown": 1, "distinct": 2}


def test_a_report_is_about_one_cluster(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.collect import collect  # noqa: PLC0415

    values = []
    for cluster, partition in (("a", "1"), ("b", "2"), ("b", "3")):
        told = json.loads(stories()[0].values[-1])
        told |= {"id": cluster + partition, "source": cluster, "type": "x.partition.offline.v1"}
        told["data"] |= {"cluster_id": cluster, "topic": "orders", "partitions": partition}
        values.append(json.dumps(told).encode())
    records = frame(spark, *values)
    assert {outage.partition for outage in collect(records, None, "b").outages} == {2, 3}
    assert collect(records, None, "a").cluster == "a"
    with pytest.raises(SparkJobError, match=r"2 clusters.*\(a, b\)"):
        collect(records, None)
    with pytest.raises(SparkJobError, match="cluster c, only of a, b"):
        collect(records, None, "c")


# -- the whole way -------------------------------------------------------------------------------------


class Topics:
    """Topics of a real Kafka with an outage from 10 to 20 s, told and in the timestamps of records."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.bootstrap = cluster.bootstrap_servers
        self.events, self.data = (f"{stem}-{uuid.uuid4().hex[:8]}" for stem in ("kpe.events", "orders"))
        for topic in (self.events, self.data):
            cluster.create_topic(topic, partitions=3)
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})

    def fill(self) -> None:
        story = Story(self.data)
        story.look(EMPTY, story.up, None, 0).look(story.up, story.down, 8, 10)
        story.look(story.down, story.back, 20, 21).look(story.back, story.grown, 24, 25)
        for value in [*story.values, story.values[-1], b"garbage"]:
            self._producer.produce(self.events, value, partition=0)
        for number in range(300):  # 0 to 29.9 s, ten a second; none to partition 1 while it is offline
            seconds = number / 10
            partition = 0 if 10 <= seconds <= 20 and number % 3 == 1 else number % 3
            self._produce(number, seconds, partition, rerouted=partition != number % 3)
        self._produce(299, 29.9, 0)  # a double
        assert self._producer.flush(30) == 0

    def _produce(self, number: int, seconds: float, partition: int, *, rerouted: bool = False) -> None:
        value = {"producer": "app", "number": number, "rerouted": rerouted, "capped": False}
        self._producer.produce(
            self.data,
            json.dumps(value).encode(),
            partition=partition,
            timestamp=int(at(seconds).timestamp() * 1000),
        )


@pytest.fixture(scope="module")
def topics(kafka_cluster: KafkaCluster) -> Topics:
    topics = Topics(kafka_cluster)
    topics.fill()
    return topics


def test_the_report_says_what_the_topics_hold(spark: "SparkSession", topics: Topics, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    counters = {"app": {topics.data: {"sent": 305, "acknowledged": 302, "failed": 3, "rerouted": 34}}}
    data = run_report(
        topics.bootstrap,
        events_topic=topics.events,
        data_topics=[topics.data],
        counters=counters,
        out=out,
        spark=spark,
    )
    (outage,) = data.outages
    assert (outage.span.shortest_s, outage.span.longest_s) == (10, 13)
    assert (data.quality.unparsed, data.quality.doubles) == (1, 1)
    (traffic,) = data.traffic
    assert traffic.seconds == pytest.approx({Phase.BEFORE: 8.0, Phase.DURING: 13.0, Phase.AFTER: 8.9})
    assert sum(traffic.total(phase) for phase in Phase) == 301
    assert traffic.total(Phase.BEFORE) == 81  # 0.0 to 8.0 s
    assert traffic.total(Phase.DURING) == 130
    assert traffic.offline == {1}
    assert traffic.added == {3}
    assert traffic.records[3] == {}  # known by its event only
    held = data.stored[topics.data]
    assert (held.records, held.numbers, held.doubles, held.rerouted) == (301, 300, 1, 34)
    page = out.read_text(encoding="utf-8")
    for said in (
        "10.0\N{EN DASH}13.0",
        "3 → 4 partitions",
        "2 acknowledged but missing",
        "1 stored twice or more",
    ):
        assert said in page


@pytest.mark.usefixtures("spark")
def test_from_the_command_line(topics: Topics, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    arguments = ["-b", topics.bootstrap, "--events-topic", topics.events, "--out", str(out)]
    assert main(arguments) == 0
    assert "1 partition went offline and came back" in out.read_text(encoding="utf-8")


def test_a_topic_that_does_not_exist_is_a_clear_error(
    spark: "SparkSession", kafka_cluster: KafkaCluster, tmp_path: Path
) -> None:
    with pytest.raises(SparkJobError, match=r"no-such-topic.*do the topics exist"):
        run_report(
            kafka_cluster.bootstrap_servers,
            events_topic="no-such-topic",
            out=tmp_path / "report.html",
            spark=spark,
        )
