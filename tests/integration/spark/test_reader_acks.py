"""A streaming query tells the tracker which partitions of a topic it reads, as the topic grows."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kafka_partition_events.testing import KafkaCluster
from tests.control_kit import Link, grown, growth
from tests.waiting_kit import waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
LIMIT_S = 60.0
wait_until = waiting(LIMIT_S)


def test_a_query_has_a_position_on_new_partitions_before_they_are_written_to(
    kafka_cluster: KafkaCluster, spark: "SparkSession", tmp_path: Path
) -> None:
    from kafka_partition_events.spark.control.reader_acks import ReaderAcks  # noqa: PLC0415

    topic = f"streamed-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, 6)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(LIMIT_S) == 0
    link = Link()
    link.write(grown(growth(topic=topic, topic_id=None, cluster_id=kafka_cluster.cluster_id)).change)
    listener = ReaderAcks(lambda: link, cluster_id=kafka_cluster.cluster_id)
    spark.streams.addListener(listener)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
        .option("kafka.metadata.max.age.ms", 500)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("noop")
        .queryName("orders_to_lake")
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="300 milliseconds")
        .start()
    )
    try:
        wait_until(lambda: bool(link.of("acks", "status")), "the change is known")
        kafka_cluster.grow_topic(topic, 12)
        wait_until(lambda: "6-11" in link.of("acks", "positioned"), "it has a position on the new ones")
        assert "6-11" in link.of("acks", "assigned")
        producer.list_topics(topic, timeout=LIMIT_S)  # which teaches it the new partitions
        for partition in range(6, 12):
            producer.produce(topic, b"v", partition=partition)
        assert producer.flush(LIMIT_S) == 0
        query.stop()
        wait_until(lambda: link.of("leases", "ttl_s")[-1:] == [0], "it says goodbye")
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    assert set(link.of("acks", "instance_id")) == {f"spark:{query.id}"}
    assert set(link.of("leases", "group")) == {"spark:orders_to_lake"}
