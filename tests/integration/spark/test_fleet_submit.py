"""The pipeline under spark-submit, as on a cluster."""

from pathlib import Path

import pyspark
import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.fleet_feed import KEPT, Feed, write_feed
from tests.fleet_kit import interpreting
from tests.submit_kit import SCRIPT, connector, submit

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[3]
FEED = Feed(9, days=0.3)


@pytest.mark.weekly  # the same on the session of these tests: test_fleet_pipeline.py
def test_the_example_and_the_command_run_on_the_session_that_spark_submit_gives(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=2, config=KEPT)
    write_feed(kafka_cluster.bootstrap_servers, topic, FEED.records)
    example = str(ROOT / "examples" / "spark" / "fleet.py")
    out = tmp_path / "out"
    env = interpreting(tmp_path / "conf")
    done = submit(*connector(), example, kafka_cluster.bootstrap_servers, str(out), topic, env=env)
    assert done.returncode == 0, done.stdout
    assert f"{len(FEED.records):,} read" in done.stdout
    assert "cause_broker" in done.stdout
    assert (out / "gold" / "partition_outages").is_dir()

    # The command goes on where the example has stopped: with nothing.
    arguments = ("fleet", "-b", kafka_cluster.bootstrap_servers, "--events-topic", topic, "--once")
    done = submit(*connector(), str(SCRIPT), *arguments, "--out", str(out), env=env)
    assert done.returncode == 0, done.stdout
    assert f"{len(FEED.records):,} read" in done.stdout


def test_without_the_connector_it_tells_the_packages(tmp_path: Path) -> None:
    done = submit(str(SCRIPT), "fleet", "-b", "localhost:1", "--once", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    wanted = f"spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert wanted in done.stdout
    assert not (tmp_path / "out").exists()
