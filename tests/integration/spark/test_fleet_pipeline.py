"""The pipeline from files to gold: what is counted, kept, repeated, recomputed, refused."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from kafka_partition_events.cli.app import run
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.progress import Progress, Refreshed
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fleet_feed import KEPT, STORY, Record, write_feed
from tests.fleet_kit import Gold, files, gold_of, tables_of
from tests.prometheus_kit import ASSETS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_partition_events.spark.ingest.sources import KafkaSource
    from kafka_partition_events.spark.tables.state import Mark

pytestmark = pytest.mark.spark


WRITTEN = STORY.days.end
"""When the archives were: what a file tells must fit to that."""


def write(path: Path, records: Sequence[Record]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(record.value + b"\n" for record in records))
    os.utime(path, (WRITTEN.timestamp(), WRITTEN.timestamp()))


def thirds() -> list[Sequence[Record]]:
    third = len(STORY.records) // 3
    return [STORY.records[:third], STORY.records[third : 2 * third], STORY.records[2 * third :]]


class Told(Progress):
    """Remembers what a pipeline told."""

    def __init__(self) -> None:
        self.refreshes: list[Refreshed] = []

    def tell(self, what: str | Refreshed) -> None:
        if isinstance(what, Refreshed):
            self.refreshes.append(what)


def once(spark: "SparkSession", out: Path, source: "KafkaSource", told: Told | None = None) -> "Mark":
    from kafka_partition_events.spark.pipeline import Fleet, Pipeline  # noqa: PLC0415

    return Pipeline(spark, Fleet(out=str(out)), told).run_once(source)


@pytest.fixture(scope="module")
def filled(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "Mark", Told]:
    """Tables that were filled by two runs, each with a part of the story."""
    place, told = tmp_path_factory.mktemp("fleet"), Told()
    first, second, third = thirds()
    for number, part in enumerate(([*first, *second], third)):
        write(place / "archive" / f"{number}.jsonl", part)
        mark = once(spark, place / "out", files(place / "archive"), told)
    return place / "out", mark, told


def test_every_record_is_counted(filled: tuple[Path, "Mark", Told]) -> None:
    _, mark, told = filled
    read = len(STORY.records)
    counted = evolve(mark.totals, doubles=0)
    assert counted == evolve(STORY.counts, doubles=0)
    assert 0.9 * STORY.doubles < mark.totals.doubles <= STORY.doubles, "those of two batches are not seen"
    assert sum(done.counts["ingest"].read for done in told.refreshes) == read
    assert [done.totals.read for done in told.refreshes][-1] == read


def test_what_is_no_event_is_kept_with_the_reason(
    spark: "SparkSession", filled: tuple[Path, "Mark", Told]
) -> None:
    records = tables_of(spark, filled[0]).read("bronze/records")
    found = records.where("defect IS NOT NULL").toArrow().to_pylist()
    assert sum(row["defect"] == "unknown" for row in found) == STORY.unknown
    assert sum(row["defect"] == "unparsed" for row in found) == STORY.junk
    assert b"not json" in {row["value"] for row in found}
    assert all(row["topic"].endswith(".jsonl") and row["timestamp"] for row in found)
    assert records.count() == len(STORY.records)


def test_gold_made_bit_by_bit_is_what_the_batch_computation_makes_of_all(
    spark: "SparkSession", filled: tuple[Path, "Mark", Told], gold_of_the_story: Gold
) -> None:
    found = gold_of(spark, filled[0])
    assert found == gold_of_the_story
    assert found["partition_outages"]
    assert found["leader_churn"]


def test_the_views_of_assets_show_the_tables(
    spark: "SparkSession", filled: tuple[Path, "Mark", Told]
) -> None:
    tables, views = tables_of(spark, filled[0]), ASSETS / "spark" / "views.sql"
    text = "\n".join(line for line in views.read_text().splitlines() if not line.startswith("--"))
    for statement in filter(str.strip, text.replace("${out}", str(filled[0])).split(";")):
        spark.sql(statement)
    shown = spark.table("kpe.availability_daily").toArrow().to_pylist()
    assert len(shown) == tables.read("gold/availability_daily").count() > 0
    assert {row["day"] for row in shown} <= set(tables.days("gold/availability_daily"))
    spark.sql("DROP SCHEMA kpe CASCADE")


def test_a_run_without_news_changes_nothing(spark: "SparkSession", filled: tuple[Path, "Mark", Told]) -> None:
    out, mark, _ = filled
    before = sorted((out / "gold").rglob("*.parquet"))
    again = once(spark, out, files(out.parent / "archive"))
    assert again.totals == mark.totals
    assert sorted((out / "gold").rglob("*.parquet")) == before


@pytest.mark.weekly  # what is told late: test_fleet_seams.py
def test_what_comes_days_late_is_as_good_as_what_came_in_time(
    spark: "SparkSession", gold_of_the_story: Gold, tmp_path: Path
) -> None:
    first, second, third = thirds()
    archive = tmp_path / "archive"
    write(archive / "0.jsonl", [*first, *third])
    once(spark, tmp_path / "out", files(archive))
    write(archive / "1.jsonl", second)
    mark = once(spark, tmp_path / "out", files(archive))
    assert mark.totals.read == len(STORY.records)
    assert gold_of(spark, tmp_path / "out") == gold_of_the_story


# -- refusals ----------------------------------------------------------------------------------------------


def test_tables_of_another_source_are_refused(
    spark: "SparkSession", filled: tuple[Path, "Mark", Told], tmp_path: Path
) -> None:
    write(tmp_path / "other" / "0.jsonl", STORY.records[:3])
    with pytest.raises(SparkJobError, match=r"is filled from the files .*choose another --out"):
        once(spark, filled[0], files(tmp_path / "other"))


def test_what_is_no_table_of_ours_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    """Such as the files of an earlier version, or tables whose state is gone."""
    write(tmp_path / "archive" / "0.jsonl", STORY.records[:3])
    (tmp_path / "out" / "bronze" / "records" / "day=2026-11-20").mkdir(parents=True)
    (tmp_path / "out" / "bronze" / "records" / "day=2026-11-20" / "0.parquet").touch()
    with pytest.raises(SparkJobError, match=r"holds something else .*choose another --out"):
        once(spark, tmp_path / "out", files(tmp_path / "archive"))


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        pytest.param("kpe", "was not made by this kpe spark fleet", id="state"),
        pytest.param("_kpe", "is not the checkpoint of the query that has filled", id="checkpoint"),
    ],
)
def test_tables_without_what_is_kept_beside_them_are_refused(
    spark: "SparkSession", filled: tuple[Path, "Mark", Told], tmp_path: Path, lost: str, told: str
) -> None:
    shutil.copytree(filled[0], tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / lost)
    with pytest.raises(SparkJobError, match=told):
        once(spark, tmp_path / "out", files(filled[0].parent / "archive"))


# -- the command -------------------------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.usefixtures("spark")
def test_the_command_tells_what_it_did(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, out = kafka_topic(partitions=2, config=KEPT), ["--out", str(tmp_path / "out")]
    write_feed(kafka_cluster.bootstrap_servers, topic, STORY.records[:40])
    where = ["-b", kafka_cluster.bootstrap_servers, "--events-topic", topic]
    assert run(["spark", "fleet", *where, *out, "--once"]) == 0
    told = capsys.readouterr()
    (line,) = told.out.splitlines()
    document = json.loads(line)
    assert document["totals"]["read"] == 40
    assert set(document) == {"days", "until", "seconds", "totals"}
    assert "kpe: ingest: 40 read" in told.err


@pytest.mark.usefixtures("spark")
def test_the_report_tells_what_the_tables_hold(
    filled: tuple[Path, "Mark", Told], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    days = f"{STORY.days.first}..{STORY.days.last}"
    assert run(["spark", "report", "--tables", str(filled[0]), "--days", days, "--out", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert all(f"topic-{number}" in text for number in range(3))
    assert "http" not in text.replace("http://www.w3.org", ""), "it asks nobody for anything"
