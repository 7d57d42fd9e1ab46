"""The examples run as they are printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic

pytestmark = pytest.mark.kafka
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["confluent_producer.py", "kafka_python_producer.py"])
def test_an_example_loses_no_record_and_prints_events(
    name: str, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=3)
    finished = subprocess.run(
        [
            sys.executable,
            str(EXAMPLES / name),
            f"--bootstrap-servers={kafka_cluster.bootstrap_servers}",
            f"--topic={topic}",
            "--seconds=2",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    counts = re.search(r"sent (\d+), acknowledged (\d+), failed 0", finished.stdout)
    assert counts, finished.stdout
    assert counts[1] == counts[2]
    assert f"event: topic_added {topic}" in finished.stdout
