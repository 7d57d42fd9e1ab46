"""Spark Connect: a server that is a process of its own, and a client of it that has no JVM.

One run of the client does everything, because starting the server and its workers takes most of the time.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from kafka_partition_events.spark.session import BRIEF
from kafka_partition_events.spark.whatif.plan import scenarios
from kafka_partition_events.testing import KafkaCluster
from tests.partition_column_kit import KEYS, assert_even, javas
from tests.submit_kit import connector
from tests.waiting_kit import waiting
from tests.whatif_kit import by_hand

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.weekly]  # a Spark of its own, cold

JOB = Path(__file__).with_name("connect_job.py")
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS = {
    **BRIEF,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # with Spark's own logging
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
_LISTENING = re.compile(r"SparkConnectServer: Spark Connect server started at: 127\.0\.0\.1:(\d+)")
_ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable}


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """Start a server and yield its address."""
    settings = [part for each in _SETTINGS.items() for part in ("--conf", "=".join(each))]
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    log = directory / "server.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [program, "--class", _SERVER, "--master", "local[2]", *connector(), *settings, "spark-internal"],
            cwd=directory,
            env=_ENVIRONMENT,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            waiting(90)(
                lambda: server.poll() is not None or _LISTENING.search(log.read_text()) is not None,
                "the server listens",
            )
            found = _LISTENING.search(log.read_text())
            assert found is not None, log.read_text()[-2_000:]
            yield f"sc://127.0.0.1:{found[1]}"
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def told(kafka_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client has to tell."""
    directory = tmp_path_factory.mktemp("connect")
    kafka_cluster.create_topic("connected", 6)
    kafka_cluster.create_topic("connected-stream", 3)
    where = (kafka_cluster.bootstrap_servers, "connected", "connected-stream", str(directory))
    with connect_server(directory) as server:
        done = subprocess.run(
            [sys.executable, str(JOB), server, *where],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env={**_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert done.returncode == 0, done.stderr[-4_000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert answer["session"] == "pyspark.sql.connect.session"
    return answer


def test_every_key_goes_where_the_java_client_puts_it(told: dict[str, Any]) -> None:
    partitions = [told["keys"][str(place)] for place in range(len(KEYS))]
    expected = [found if key is None else javas(key, 6) for key, found in zip(KEYS, partitions, strict=True)]
    assert partitions == expected
    assert_even(Counter(told["unkeyed"]), (0, 2, 3, 5), 150)


def test_what_it_writes_arrives(told: dict[str, Any]) -> None:
    assert told["written"] == "murmur2"
    assert len(told["records"]) == 600
    unkeyed: Counter[int] = Counter()
    for key, value, partition in told["records"]:
        if key is None:
            unkeyed[partition] += 1
        else:
            assert key == "user-" + value[1:]
            assert partition == javas(key.encode(), 6)
    assert_even(unkeyed, range(6), 50)


def test_batches_of_a_stream_are_written_beside_the_server(told: dict[str, Any]) -> None:
    assert sorted(value for _, value, *_ in told["streamed"]) == sorted(f"v{row}" for row in range(100))
    for key, _, partition in told["streamed"]:
        assert key is None or partition == javas(key.encode(), 3)


@pytest.mark.parametrize(
    ("what", "error", "said"),
    [
        ("unknown", "UnknownPartitionError", "the cluster shows no topic 'never-made'"),
        ("fleet", "SparkJobError", "the fleet pipeline needs a classic Spark session"),
    ],
)
def test_what_it_can_not_do_is_refused_in_words(
    told: dict[str, Any], what: str, error: str, said: str
) -> None:
    kind, text = told["refused"][what]
    assert kind == error
    assert said in text
    assert "\n" not in text


def test_the_planner_counts_as_the_partitioners_place(told: dict[str, Any]) -> None:
    for scenario, found in zip(scenarios(12, [13, 24], ["modulo", "kept"]), told["outcomes"], strict=True):
        expected = by_hand(KEYS, scenario, "murmur2")
        assert found == [expected.moved, *expected.after]
