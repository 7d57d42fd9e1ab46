import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.mock_cluster import MockCluster

KPE = [sys.executable, "-m", "kafka_partition_events.cli"]


def _run(*arguments: str, limit: float = 60) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*KPE, *arguments], capture_output=True, text=True, check=False, timeout=limit)


def test_an_unknown_option_is_told_without_its_value(mock_cluster: MockCluster) -> None:
    done = _run("watch", "-b", mock_cluster.bootstrap_servers, "-X", "nonsense=hunter2")
    assert done.returncode == 2
    assert done.stderr == ('kpe: librdkafka refuses an option: No such configuration property: "nonsense"\n')
    done = _run("watch", "-b", mock_cluster.bootstrap_servers, "-X", "security.protocol=hunter2")
    assert done.returncode == 2
    assert "security.protocol" in done.stderr
    assert "hunter2" not in done.stderr


def test_the_reader_may_leave(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    watch = subprocess.Popen(
        [*KPE, "watch", "-b", mock_cluster.bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None
    assert watch.stderr is not None
    try:
        assert json.loads(watch.stdout.readline())["kind"] == "broker_added"
        watch.stdout.close()
        assert watch.wait(30) == 0
        assert watch.stderr.read() == ""
    finally:
        watch.kill()
        watch.wait()
        watch.stderr.close()


def _lines(watch: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    assert watch.stdout is not None
    for line in watch.stdout:
        yield json.loads(line)


@pytest.mark.kafka
def test_watch_follows_a_real_cluster_until_ctrl_c(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(3)
    watch = subprocess.Popen(
        [*KPE, "watch", "-b", kafka_cluster.bootstrap_servers, "--topics", topic, "--interval", "500ms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        events = _lines(watch)
        added = next(event for event in events if event["kind"] == "topic_added")
        assert (added["topic"], added["initial"], len(added["new"]["partitions"])) == (topic, True, 3)
        kafka_cluster.grow_topic(topic, 5)
        grown = next(event for event in events if event["kind"] == "partitions_added")
        assert (grown["initial"], len(grown["old"]["partitions"]), len(grown["new"]["partitions"])) == (
            False,
            3,
            5,
        )
        watch.send_signal(signal.SIGINT)
        _, summary = watch.communicate(timeout=60)
    finally:
        watch.kill()
        watch.wait()
    assert watch.returncode == 0
    assert summary.startswith("kpe: ")
    assert summary.count("\n") == 1
