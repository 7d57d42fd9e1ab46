"""``kpe spark whatif`` and the example: what a person sees."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kafka_partition_events.cli.app import run
from kafka_partition_events.spark.whatif.plan import Scenario
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fleet_kit import BRIEF_JVM
from tests.whatif_kit import by_hand, keys, written

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "whatif.py"
KEYS = keys(1_000)


@pytest.fixture
def whatif(spark: SparkSession) -> Callable[..., int]:
    """Run the command in this process, which takes the session that is there."""
    assert spark is not None
    return lambda *words: run(["spark", "whatif", *words])


def test_a_table_on_the_terminal(
    spark: SparkSession, tmp_path: Path, whatif: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(spark, tmp_path, "parquet")
    words = ["--file", path, "--key", "customer", "--partitions", "12", "--to", "13,24"]
    assert whatif(*words, "--output", "table") == 0
    told = capsys.readouterr()
    assert f"file {path}, 12 partitions, 200 records, murmur2, counted in" in told.out
    lines = [line.split() for line in told.out.splitlines()]
    mappings = ("modulo", "kept")
    assert [line[:2] for line in lines if len(line) > 6 and line[0].isdigit() and line[1] in mappings] == [
        ["13", "modulo"],
        ["13", "kept"],
        ["24", "modulo"],
        ["24", "kept"],
    ]
    assert "#1" in told.out
    assert "hot" not in told.out.lower().replace("hottest", "")  # it may be somebody's name


def test_json_for_programs(
    spark: SparkSession, tmp_path: Path, whatif: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(spark, tmp_path, "json")
    words = ["--file", path, "--key", "customer", "--partitions", "12", "--to", "18"]
    assert whatif(*words, "--show-keys") == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["scenarios"]] == ["modulo_18", "kept_18"]
    assert document["scenarios"][1]["moved_share"] == 0
    assert document["hottest"][0]["key"] == "hot"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--to", "13"], "the keys come from one of --topic, --table and --file; none is given"),
        (["--to", "13", "--table", "a", "--file", "b"], "--table and --file is given"),
        (["--to", "13", "--file", "x.json"], "a table or file does not say how many partitions there are"),
        (["--to", "13", "--topic", "orders"], "no broker is given; write -b HOST:PORT"),
        (["--to", "x", "--file", "x.json", "--partitions", "2"], "--to must be whole numbers such as 13,18"),
        (["--to", "1", "--file", "x.json", "--partitions", "2"], "Kafka takes none away"),
        (["--to", "3", "--file", "x.json", "--partitions", "2", "--hash", "y"], "--hash must be one of"),
        (["--to", "3", "--file", "/x.json", "--partitions", "2"], "/x.json can't be read as json"),
    ],
)
def test_what_can_not_be_answered_is_told_in_one_line(
    words: list[str],
    complaint: str,
    whatif: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KPE_BOOTSTRAP_SERVERS", raising=False)
    assert whatif(*words) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("kpe: ")
    assert complaint in last


@pytest.mark.kafka
def test_the_keys_of_a_topic(
    kafka_cluster: KafkaCluster,
    kafka_topic: MakeTopic,
    whatif: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = kafka_topic(partitions=12)
    producer = Producer(
        {"bootstrap.servers": kafka_cluster.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for key in KEYS:
        producer.produce(topic, key=key, value=b"0123456789")
    for _ in range(24):
        producer.produce(topic, value=b"0123456789")
    assert producer.flush(60) == 0
    to_13 = ["--topic", topic, "--to", "13"]
    assert whatif("-b", kafka_cluster.bootstrap_servers, *to_13) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["partitions"] == 12
    modulo_13 = document["scenarios"][0]
    assert modulo_13["moved"] == by_hand(KEYS, Scenario(current=12, partitions=13), "murmur2").moved
    assert modulo_13["unkeyed"] == 24
    by_crc32 = kafka_topic(partitions=12)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    for key in KEYS:
        producer.produce(by_crc32, key=key)
    assert producer.flush(60) == 0
    assert whatif("-b", kafka_cluster.bootstrap_servers, "--topic", by_crc32, "--to", "13") == 2
    assert "placed by crc32, not by murmur2: say --hash crc32" in capsys.readouterr().err
    assert whatif("-b", kafka_cluster.bootstrap_servers, "--topic", "no-such-topic", "--to", "13") == 2
    assert "there is no topic no-such-topic" in capsys.readouterr().err


def assert_it_is_all_told(said: str) -> None:
    assert re.search(r"modulo_13: \d+\.\d% would move, max/mean \d", said)
    assert "kept_13: 0.0% would move" in said
    assert "customer-0: 33.3% of all records" in said


def test_the_example_runs_on_the_session_that_is_there(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert_it_is_all_told(capsys.readouterr().out)


@pytest.mark.weekly
def test_the_example_runs_as_it_is_printed(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path / "whatif.py")
    done = subprocess.run(
        [sys.executable, "whatif.py"],
        cwd=tmp_path,
        env={**os.environ, **BRIEF_JVM},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_it_is_all_told(done.stdout)
