import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.integration.programs import KPE, ended
from tests.mock_cluster import MockCluster


def test_an_unknown_option_is_told_without_its_value(mock_cluster: MockCluster) -> None:
    watch = [*KPE, "watch", "-b", mock_cluster.bootstrap_servers, "-X"]
    done = ended(*watch, "nonsense=hunter2")
    assert done.returncode == 2
    assert done.stderr == 'kpe: librdkafka refuses an option: No such configuration property: "nonsense"\n'
    done = ended(*watch, "security.protocol=hunter2")
    assert done.returncode == 2
    assert "security.protocol" in done.stderr
    assert "hunter2" not in done.stderr


@contextmanager
def watching(*words: str) -> "Iterator[subprocess.Popen[str]]":
    pipe = subprocess.PIPE
    with subprocess.Popen([*KPE, "watch", *words], stdout=pipe, stderr=pipe, text=True) as watch:
        try:
            yield watch
        finally:
            watch.kill()


def test_the_reader_may_leave(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("orders", 3)
    with watching("-b", mock_cluster.bootstrap_servers) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None
        assert json.loads(watch.stdout.readline())["kind"] == "broker_added"
        watch.stdout.close()
        assert watch.wait(30) == 0
        assert watch.stderr.read() == ""


@pytest.mark.kafka
def test_watch_follows_a_real_cluster_until_ctrl_c(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(3)
    words = ("-b", kafka_cluster.bootstrap_servers, "--topics", topic, "--interval", "500ms")
    with watching(*words) as watch:
        assert watch.stdout is not None
        events = map(json.loads, watch.stdout)
        added = next(event for event in events if event["kind"] == "topic_added")
        assert (added["topic"], added["initial"], len(added["new"]["partitions"])) == (topic, True, 3)
        kafka_cluster.grow_topic(topic, 5)
        grown = next(event for event in events if event["kind"] == "partitions_added")
        assert grown["initial"] is False
        assert [len(grown[state]["partitions"]) for state in ("old", "new")] == [3, 5]
        watch.send_signal(signal.SIGINT)
        _, summary = watch.communicate(timeout=60)
    assert watch.returncode == 0
    assert summary.startswith("kpe: ")
    assert summary.count("\n") == 1
