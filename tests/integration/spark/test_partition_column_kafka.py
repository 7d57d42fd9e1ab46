"""Rows that Spark writes arrive where they belong; or the job says why not."""

import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events import ConfigurationError, DefaultPartitioner
from kafka_partition_events.spark.partition_column import write_to_kafka
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from tests.partition_column_kit import KEYS, assert_even, javas, mixed, stored
from tests.submit_kit import connector, submit

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "partitioned_writer.py"


def write(rows: DataFrame, cluster: KafkaCluster, topic: Any, **how: Any) -> Any:
    return write_to_kafka(rows, topic=topic, cluster=cluster.bootstrap_servers, **how)


def test_rows_arrive_where_they_belong(
    spark: SparkSession, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=6)
    written = write(mixed(spark, 1_200), kafka_cluster, topic)
    assert (written.hash_name, written.offline, written.avoided) == ("murmur2", (), ())
    records = stored(spark, kafka_cluster.bootstrap_servers, topic).collect()
    assert len(records) == 1_200
    ours = DefaultPartitioner()
    ours.apply_snapshot(written.cluster)
    unkeyed: Counter[int] = Counter()
    for record in records:
        key = record["key"]
        if key is None:
            unkeyed[record["partition"]] += 1
        else:
            key = bytes(key)
            assert record["partition"] == ours.partition(topic, key, key, None, None, None)
    assert_even(unkeyed, range(6), 100)


def test_the_java_client_puts_every_key_on_the_same_partition(
    spark: SparkSession, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    javas, ours = kafka_topic(partitions=7), kafka_topic(partitions=7)
    rows = spark.createDataFrame([(key, b"v") for key in KEYS if key is not None], "key BINARY, value BINARY")
    (
        rows.write.format("kafka")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
        .option("topic", javas)
        .save()
    )
    write(rows, kafka_cluster, ours)
    places = {
        bytes(record["key"]): record["partition"]
        for record in stored(spark, kafka_cluster.bootstrap_servers, javas).collect()
    }
    for record in stored(spark, kafka_cluster.bootstrap_servers, ours).collect():
        assert record["partition"] == places[bytes(record["key"])], record["key"]


def test_a_key_that_is_an_expression_is_computed_once(
    spark: SparkSession, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=12)
    write(mixed(spark, 500), kafka_cluster, topic, key=F.expr("uuid()"))
    records = stored(spark, kafka_cluster.bootstrap_servers, topic).collect()
    assert len({bytes(record["key"]) for record in records}) == 500
    assert all(record["partition"] == javas(bytes(record["key"]), 12) for record in records)


def test_keys_go_where_the_topics_other_writers_put_them_or_nowhere(
    spark: SparkSession, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=12)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})  # whose default is CRC-32
    for row in range(0, 500, 2):
        producer.produce(topic, key=f"user-{row}", value="before")
    assert producer.flush(60) == 0
    rows = mixed(spark, 500)
    with pytest.raises(ConfigurationError, match=r'placed by crc32 over 12 .* Set hash_name="crc32"; or'):
        write(rows, kafka_cluster, topic)
    write(rows, kafka_cluster, topic, hash_name="crc32")
    places: dict[bytes, set[int]] = {}
    for record in stored(spark, kafka_cluster.bootstrap_servers, topic).collect():
        if record["key"] is not None:
            places.setdefault(bytes(record["key"]), set()).add(record["partition"])
    assert len(places) == 250
    assert all(len(partitions) == 1 for partitions in places.values())


def test_the_partition_that_a_record_was_read_from_is_not_where_it_is_written(
    spark: SparkSession, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    source, target = kafka_topic(partitions=2), kafka_topic(partitions=6)
    write(mixed(spark, 60), kafka_cluster, source)
    read = stored(spark, kafka_cluster.bootstrap_servers, source)
    with pytest.raises(ConfigurationError, match="have a column partition: drop it"):
        write(read, kafka_cluster, target)
    write(read.drop("partition"), kafka_cluster, target)
    assert {
        record["partition"] for record in stored(spark, kafka_cluster.bootstrap_servers, target).collect()
    } == set(range(6))


def test_keys_are_not_written_to_places_chosen_without_them(
    spark: SparkSession, kafka_cluster: KafkaCluster
) -> None:
    with pytest.raises(ConfigurationError, match="have a column key"):
        write(mixed(spark, 1), kafka_cluster, "orders", key=None)
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    with pytest.raises(ConfigurationError, match="foreachBatch"):
        write(stream, kafka_cluster, "orders", key=None)


def test_the_example_writes_its_batches(
    spark: SparkSession,
    kafka_cluster: KafkaCluster,
    kafka_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None, "it takes the session that is there"
    where = ("--bootstrap-servers", kafka_cluster.bootstrap_servers, "--topic", kafka_topic(partitions=3))
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *where, "--batches", "2"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "batch 1: 0 partitions offline" in capsys.readouterr().out


@pytest.mark.weekly
def test_the_example_writes_its_batches_under_spark_submit(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    where = ("--bootstrap-servers", kafka_cluster.bootstrap_servers, "--topic", kafka_topic(partitions=3))
    done = submit(*connector(), str(EXAMPLE), *where, "--batches", "2")
    assert done.returncode == 0, done.stdout
    assert "batch 1: 0 partitions offline" in done.stdout
