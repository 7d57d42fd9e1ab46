"""The pipeline from a real topic to gold: what is counted, said, kept, repeated, refused.

One story, for a run costs most of the time: the command takes in a third of it. Then the topic is created
again, and a pipeline that goes on takes in the rest in two batches, while Prometheus asks it.
"""

import contextlib
import io
import json
import shutil
import threading
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
from attrs import evolve
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.spark.fleet import metrics_at
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.ingest.sources import KafkaSource
from kafka_partition_events.spark.pipeline import Fleet, Pipeline
from kafka_partition_events.spark.progress import Progress
from kafka_partition_events.spark.tables.state import Taken
from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from kafka_partition_events.testing.ports import free_ports
from tests.fleet_feed import KEPT, STORY, Record, write_feed
from tests.fleet_kit import Gold, gold_of, tables_of
from tests.fleet_oracle import expected, shown
from tests.prometheus_kit import ASSETS
from tests.waiting_kit import waiting

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

wait_until = waiting(240, every_s=0.05)
UNREAD = 5
"""So many offsets the topic still had when it was deleted."""


def thirds() -> list[Sequence[Record]]:
    third = len(STORY.records) // 3
    return [STORY.records[:third], STORY.records[third : 2 * third], STORY.records[2 * third :]]


def source_of(cluster: KafkaCluster, topic: str, **how: Any) -> KafkaSource:
    return KafkaSource(bootstrap=cluster.bootstrap_servers, topic=topic, **how)


def once(spark: SparkSession, out: Path, source: KafkaSource) -> Taken:
    return Pipeline(spark, Fleet(out=str(out))).run_once(source)


class Begun(NamedTuple):
    """What the command has made of the first third, and said."""

    out: Path
    topic: str
    said: str
    progress: str


@pytest.fixture(scope="module")
def begun(
    spark: SparkSession, kafka_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> Begun:
    assert spark is not None, "the command takes the session that is there"
    topic, out = f"kpe.events-{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("fleet") / "out"
    kafka_cluster.create_topic(topic, partitions=2, config=KEPT)
    write_feed(kafka_cluster.bootstrap_servers, topic, thirds()[0])
    where = ["-b", kafka_cluster.bootstrap_servers, "--events-topic", topic, "--out", str(out)]
    with (
        contextlib.redirect_stdout(io.StringIO()) as said,
        contextlib.redirect_stderr(io.StringIO()) as steps,
    ):
        assert run(["spark", "fleet", *where, "--once"]) == 0
    return Begun(out, topic, said.getvalue(), steps.getvalue())


def test_the_command_tells_what_it_did(begun: Begun) -> None:
    (line,) = begun.said.splitlines()
    document = json.loads(line)
    read = len(thirds()[0])
    assert document["totals"]["read"] == read
    assert set(document) == {"days", "until", "seconds", "totals"}
    assert f"kpe: ingest: {read:,} read" in begun.progress


class Filled(NamedTuple):
    """What has become of the rest.

    Attributes:
        out: Where the tables are.
        source: Where all of it came from.
        mark: What was counted.
        at_first: What Prometheus read before.
        lags: The lags that it read in between.
        at_last: What it read in the end.
    """

    out: Path
    source: KafkaSource
    mark: Taken
    at_first: dict[str, float]
    lags: set[float]
    at_last: dict[str, float]


def scraped(port: int) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        "/".join([sample.name.removeprefix("kpe_spark_"), *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def filled(spark: SparkSession, kafka_cluster: KafkaCluster, begun: Begun) -> Filled:
    kept = StateTable(tables_of(spark, begun.out))
    state = kept.take_over([])
    seen = {name: evolve(reading, behind=UNREAD) for name, reading in state.readings.items()}
    kept.write(evolve(state, readings=seen, ended=True))
    kafka_cluster.delete_topic(begun.topic)
    kafka_cluster.create_topic(begun.topic, 2, config=KEPT)
    _, second, third = thirds()
    write_feed(kafka_cluster.bootstrap_servers, begun.topic, [*second, *third])
    total = len(second) + len(third)
    source = source_of(kafka_cluster, begun.topic, max_per_batch=total * 2 // 3)
    (port,) = free_ports(1)
    with metrics_at(("127.0.0.1", port), Progress()) as metrics:
        at_first = scraped(port)
        pipeline = Pipeline(spark, Fleet(out=str(begun.out)), metrics)
        marks: list[Taken] = []
        running = threading.Thread(target=lambda: marks.append(pipeline.run(source, timedelta(seconds=1))))
        running.start()
        lags = set[float]()

        def all_is_in() -> bool:
            now = scraped(port)
            if (lag := now.get("lag_offsets/ingest")) is not None:
                lags.add(lag)
            return now.get("records_total/ingest") == total and lag == 0

        try:
            wait_until(all_is_in, "all records are in, and no offset is left")
        finally:
            pipeline.stop()
            running.join(240)
        (mark,) = marks
        return Filled(begun.out, source, mark, at_first, lags, scraped(port))


def test_every_record_is_counted_those_that_went_with_a_topic_too(filled: Filled) -> None:
    totals = filled.mark.totals
    assert evolve(totals, doubles=0) == evolve(STORY.counts, doubles=0, missing=UNREAD)
    assert 0.9 * STORY.doubles < totals.doubles <= STORY.doubles, "those of two batches are not seen"


def test_lag_quarantine_and_age_are_told_while_it_runs(filled: Filled) -> None:
    first, last = filled.at_first, filled.at_last
    assert first["missing_offsets_total/ingest"] == first["quarantined_records_total/unknown/ingest"] == 0
    assert last["missing_offsets_total/ingest"] == UNREAD
    assert any(lag > 0 for lag in filled.lags), "after the first batch, a third was left"
    quarantined = sum(last[f"quarantined_records_total/{name}/ingest"] for name in ("unparsed", "unknown"))
    assert last["records_total/ingest"] == len(STORY.records) - len(thirds()[0])
    assert 0 < quarantined <= STORY.junk + STORY.unknown
    assert {name: last[f"gold_until_timestamp_seconds/{name}"] for name in filled.mark.until} == {
        name: until.timestamp() for name, until in filled.mark.until.items()
    }
    assert last["refresh_duration_seconds_count"] >= 2
    assert last["refresh_duration_seconds_sum"] > 0


def test_an_address_that_is_taken_is_told() -> None:
    (port,) = free_ports(1)
    with metrics_at(("127.0.0.1", port), Progress()), pytest.raises(CliError, match="can't listen there"):
        metrics_at(("127.0.0.1", port), Progress()).__enter__()


def test_what_is_no_event_is_kept_with_the_reason(spark: SparkSession, filled: Filled) -> None:
    records = tables_of(spark, filled.out).read("bronze/records")
    found = records.where("defect IS NOT NULL").toArrow().to_pylist()
    assert sum(row["defect"] == "unknown" for row in found) == STORY.unknown
    assert sum(row["defect"] == "unparsed" for row in found) == STORY.junk
    assert b"not json" in {row["value"] for row in found}
    assert all(row["topic"] == filled.source.topic and row["timestamp"] for row in found)
    assert records.count() == len(STORY.records)


def test_gold_made_bit_by_bit_is_what_the_batch_computation_makes_of_all(
    spark: SparkSession, filled: Filled, gold_of_the_story: Gold
) -> None:
    found = gold_of(tables_of(spark, filled.out))
    assert found == gold_of_the_story
    assert found["partition_outages"]
    assert found["leader_churn"]


def test_gold_is_what_plain_python_finds(gold_of_the_story: Gold) -> None:
    wanted = expected(record.value for record in STORY.records)
    for name, rows in wanted.items():
        assert shown(name, map(dict, gold_of_the_story[name])) == rows, name


def test_the_views_of_assets_show_the_tables(spark: SparkSession, filled: Filled) -> None:
    tables, views = tables_of(spark, filled.out), ASSETS / "spark" / "views.sql"
    text = "\n".join(line for line in views.read_text().splitlines() if not line.startswith("--"))
    for statement in filter(str.strip, text.replace("${out}", str(filled.out)).split(";")):
        spark.sql(statement)
    shown = spark.table("kpe.availability_daily").toArrow().to_pylist()
    assert len(shown) == tables.read("gold/availability_daily").count() > 0
    assert {row["day"] for row in shown} <= set(tables.days("gold/availability_daily"))
    spark.sql("DROP SCHEMA kpe CASCADE")


def test_a_run_without_news_changes_nothing(spark: SparkSession, filled: Filled) -> None:
    before = sorted((filled.out / "gold").rglob("*.parquet"))
    assert once(spark, filled.out, filled.source).totals == filled.mark.totals
    assert sorted((filled.out / "gold").rglob("*.parquet")) == before


@pytest.mark.weekly  # what is told late: test_fleet_seams.py
def test_what_comes_days_late_is_as_good_as_what_came_in_time(
    spark: SparkSession,
    kafka_cluster: KafkaCluster,
    kafka_topic: MakeTopic,
    gold_of_the_story: Gold,
    tmp_path: Path,
) -> None:
    first, second, third = thirds()
    source = source_of(kafka_cluster, kafka_topic(partitions=2, config=KEPT))
    for records in ([*first, *third], second):
        write_feed(source.bootstrap, source.topic, records)
        mark = once(spark, tmp_path, source)
    assert mark.totals.read == len(STORY.records)
    assert gold_of(tables_of(spark, tmp_path)) == gold_of_the_story


# -- refusals ----------------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_told(
    spark: SparkSession, kafka_cluster: KafkaCluster, tmp_path: Path
) -> None:
    with pytest.raises(SparkJobError, match=r"no-such-topic at .*; does the topic exist"):
        once(spark, tmp_path, source_of(kafka_cluster, "no-such-topic"))


def test_tables_of_another_topic_or_cluster_are_refused(
    spark: SparkSession, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, filled: Filled
) -> None:
    with pytest.raises(SparkJobError, match=r"is filled from the Kafka topic .*choose another --out"):
        once(spark, filled.out, source_of(kafka_cluster, kafka_topic()))

    class Elsewhere(KafkaSource):
        def ids(self, spark: SparkSession) -> tuple[str, str]:
            return "another", super().ids(spark)[1]

    elsewhere = Elsewhere(bootstrap=filled.source.bootstrap, topic=filled.source.topic)
    with pytest.raises(
        SparkJobError, match=r"is filled from .* on cluster \S+, .* on cluster another: choose"
    ):
        once(spark, filled.out, elsewhere)


def test_what_is_no_table_of_ours_is_refused(spark: SparkSession, filled: Filled, tmp_path: Path) -> None:
    """Such as the files of an earlier version, or tables whose state is gone."""
    (tmp_path / "out" / "bronze" / "records" / "day=2026-11-20").mkdir(parents=True)
    (tmp_path / "out" / "bronze" / "records" / "day=2026-11-20" / "0.parquet").touch()
    with pytest.raises(SparkJobError, match=r"holds something else .*choose another --out"):
        once(spark, tmp_path / "out", filled.source)


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        pytest.param("kpe", "was not made by this kpe spark fleet", id="state"),
        pytest.param("_kpe", "is not the checkpoint of the query that has filled", id="checkpoint"),
    ],
)
def test_tables_without_what_is_kept_beside_them_are_refused(
    spark: SparkSession, filled: Filled, tmp_path: Path, lost: str, told: str
) -> None:
    shutil.copytree(filled.out, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / lost)
    with pytest.raises(SparkJobError, match=told):
        once(spark, tmp_path / "out", filled.source)


# -- the report --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_the_report_tells_what_the_tables_hold(
    filled: Filled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    days = f"{STORY.days.first}..{STORY.days.last}"
    assert run(["spark", "report", "--tables", str(filled.out), "--days", days, "--out", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert all(f"topic-{number}" in text for number in range(3))
    assert "http" not in text.replace("http://www.w3.org", ""), "it asks nobody for anything"
