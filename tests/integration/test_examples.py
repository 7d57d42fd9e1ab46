"""The examples run as they are printed: both clients, a web service, a consumer, a bad network."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.integration.programs import ended
from tests.waiting_kit import waiting

pytestmark = pytest.mark.kafka
EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(name: str, cluster: KafkaCluster, topic: str, option: str) -> str:
    """Run an example to its end; return what it has printed."""
    where = f"--bootstrap-servers={cluster.bootstrap_servers}", f"--topic={topic}"
    finished = ended(sys.executable, EXAMPLES / name, *where, option)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("name", ["confluent_producer.py", "kafka_python_producer.py"])
def test_an_example_loses_no_record_and_prints_events(
    name: str, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=3)
    printed = ran(name, kafka_cluster, topic, "--seconds=2")
    counts = re.search(r"sent (\d+), acknowledged (\d+), failed 0", printed)
    assert counts, printed
    assert counts[1] == counts[2]
    assert f"event: topic_added {topic}" in printed


VICTIM = 2


class Service:
    """The running web service."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("listening on "), first
        self.url = first.removeprefix("listening on ").strip()

    def order(self, text: str) -> int:
        """Order something; return the status."""
        url = f"{self.url}/orders"
        with urllib.request.urlopen(url, text.encode(), timeout=10) as answer:  # noqa: S310 - our own
            return int(answer.status)

    def health(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer:  # noqa: S310 - our own
            return dict(json.load(answer))

    def stop(self) -> str:
        """Stop it as a service manager would, and return what it has printed."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=60)[0]


@pytest.fixture
def service(cluster: KafkaCluster, topic: str) -> Iterator[Service]:
    command = [sys.executable, str(EXAMPLES / "web_service.py"), "--port=0"]
    options = [f"--bootstrap-servers={cluster.bootstrap_servers}", f"--topic={topic}"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Service(process)
        finally:
            process.kill()


def test_the_service_answers_while_a_broker_is_frozen_and_each_order_counts_once(
    cluster: KafkaCluster, topic: str, service: Service
) -> None:
    taken = 0

    def take_orders(seconds: float) -> None:
        nonlocal taken
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert service.order(f"order {taken}") == 202
            taken += 1

    take_orders(1.5)
    cluster.freeze(VICTIM)
    try:
        take_orders(1.5)
        health = service.health()
        assert VICTIM in health["suspect_brokers"]
        assert health["failed"] == 0
        # What was stuck is sent again, while the broker is frozen still.
        waiting(10.0)(lambda: service.health()["delivered"] > taken - 50, "nearly all orders are delivered")
    finally:
        cluster.thaw(VICTIM)
    take_orders(0.5)
    printed = service.stop()
    assert f"delivered {taken}, failed 0" in printed
    assert f"broker {VICTIM} is avoided: silent" in printed

    told = ran("ordered_consumer.py", cluster, topic, "--idle-seconds=4")
    counts = re.search(r"kept (\d+), dropped (\d+)", told)
    assert counts, told
    assert int(counts[1]) == taken
    assert int(counts[2]) > 0
    again = ran("ordered_consumer.py", cluster, topic, "--idle-seconds=1")
    assert "kept 0, dropped 0" in again, "what its group has read is not dropped"


def test_an_applications_own_producer_is_tested_on_a_bad_network() -> None:
    options = ("-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "examples/test_order_sender.py")
    finished = ended(sys.executable, "-m", "pytest", *options, cwd=EXAMPLES.parent, limit_s=240)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"3 passed", finished.stdout)
