"""Rows that Spark writes arrive where they belong, with headers that tell them; or the job says why not."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka_partition_events import ConfigurationError, DefaultPartitioner, PartitionOfflineError
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from kafka_partition_events.testing.scripted import cluster_of
from tests.partition_column_kit import BACKENDS, KEYS, assert_even, mixed, policy
from tests.submit_kit import connector, submit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "partitioned_writer.py"


def stored(spark: "SparkSession", cluster: KafkaCluster, topic: str) -> list[Any]:
    """Return a topic's records."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        .collect()
    )


def headers_of(record: Any) -> dict[str, str]:
    return {header["key"]: bytes(header["value"]).decode() for header in record["headers"] or ()}


def write(rows: "DataFrame", cluster: KafkaCluster, topic: Any, **how: Any) -> Any:
    from kafka_partition_events.spark.partition_column import write_to_kafka  # noqa: PLC0415

    return write_to_kafka(rows, topic=topic, cluster=cluster.bootstrap_servers, **how)


def test_rows_arrive_where_they_belong_with_headers_that_tell_them(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=6)
    written = write(mixed(spark, 1_200), kafka_cluster, topic, query="nightly", batch=7)
    assert (written.query, written.batch, written.backend, written.offline) == ("nightly", "7", "jvm", {})
    records = stored(spark, kafka_cluster, topic)
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
    told = [headers_of(record) for record in records]
    assert {(each["kpe-query"], each["kpe-batch"]) for each in told} == {("nightly", "7")}
    assert len({each["kpe-row"] for each in told}) == 1_200


def test_the_java_client_puts_every_key_on_the_same_partition(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    javas, ours = kafka_topic(partitions=7), kafka_topic(partitions=7)
    rows = spark.createDataFrame([(key, b"v") for key in KEYS if key is not None], "key BINARY, value BINARY")
    (
        rows.write.format("kafka")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
        .option("topic", javas)
        .save()
    )
    for backend in BACKENDS:
        write(rows, kafka_cluster, ours, backend=backend)
    places = {bytes(record["key"]): record["partition"] for record in stored(spark, kafka_cluster, javas)}
    for record in stored(spark, kafka_cluster, ours):
        assert record["partition"] == places[bytes(record["key"])], record["key"]


def test_a_batch_that_is_repeated_carries_the_same_headers_to_the_same_partitions(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=3)
    for _ in range(2):
        write(mixed(spark, 100), kafka_cluster, topic, query="stream", batch=3)
    seen = Counter(
        (record["partition"], record["value"].decode(), tuple(sorted(headers_of(record).items())))
        for record in stored(spark, kafka_cluster, topic)
    )
    assert len(seen) == 100
    assert set(seen.values()) == {2}


def test_headers_of_the_rows_own_are_kept(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic, bare = kafka_topic(partitions=3), kafka_topic(partitions=3)
    rows = spark.sql("""
        SELECT 'k' AS key, 'v' AS value,
            ARRAY(STRUCT('trace' AS key, CAST('t1' AS BINARY) AS value)) AS headers
        UNION ALL SELECT 'l', 'w', NULL
    """)
    write(rows, kafka_cluster, topic)
    names = {
        record["value"].decode(): set(headers_of(record)) for record in stored(spark, kafka_cluster, topic)
    }
    ours = {"kpe-query", "kpe-batch", "kpe-partition", "kpe-row"}
    assert names == {"v": {"trace", *ours}, "w": ours}
    write(rows, kafka_cluster, bare, headers=False)
    assert {frozenset(headers_of(r)) for r in stored(spark, kafka_cluster, bare)} == {
        frozenset({"trace"}),
        frozenset(),
    }


def test_partitions_that_rows_bring_are_kept_and_the_others_are_chosen(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=6)
    rows = mixed(spark, 100).selectExpr("*", "IF(value LIKE '%7', 5L, NULL) AS partition")
    write(rows, kafka_cluster, topic, policy=policy(cap={topic: [2]}))
    for record in stored(spark, kafka_cluster, topic):
        if record["value"].endswith(b"7"):
            assert record["partition"] == 5
        elif record["key"] is None:
            assert record["partition"] == 2


@pytest.mark.parametrize("partition", [6, -1, 2**40])
def test_a_partition_that_the_cluster_does_not_know_fails_at_once(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, partition: int
) -> None:
    from kafka_partition_events.spark.partition_column import UnknownPartitionError  # noqa: PLC0415

    topic = kafka_topic(partitions=6)
    rows = mixed(spark, 10).selectExpr("*", f"{partition}L AS partition")
    expected = f"partition {partition} of topic {topic} is not known to the cluster, which has 0 to 5$"
    with pytest.raises(UnknownPartitionError, match=expected):
        write(rows, kafka_cluster, topic)
    assert not stored(spark, kafka_cluster, topic)


def test_a_topic_that_the_cluster_does_not_know_fails_before_spark_runs(
    spark: "SparkSession", kafka_cluster: KafkaCluster
) -> None:
    with pytest.raises(SparkJobError, match="no topic 'never-made'"):
        write(mixed(spark, 10), kafka_cluster, "never-made")


def test_rows_with_topics_of_their_own_reach_them(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    large, small = kafka_topic(partitions=6), kafka_topic(partitions=2)
    rows = mixed(spark, 200).withColumn("to", F.when(F.hash("value") % 2 == 0, large).otherwise(small))
    write(rows, kafka_cluster, F.col("to"), topics=[large, small])
    found = [len(stored(spark, kafka_cluster, topic)) for topic in (large, small)]
    assert sum(found) == 200
    assert all(found)
    with pytest.raises(SparkJobError, match=f"topic {large} is not in the metadata snapshot"):
        write(rows, kafka_cluster, F.col("to"), topics=[small])


def test_a_row_whose_partition_is_offline_is_told_with_raise(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    from kafka_partition_events.spark.partition_column import write_to_kafka  # noqa: PLC0415

    topic = kafka_topic(partitions=6)
    with pytest.raises(PartitionOfflineError, match=f"partition [14] of topic {topic} has no leader$"):
        write_to_kafka(
            mixed(spark, 100),
            topic=topic,
            cluster=cluster_of({topic: [1, None, 3, 1, None, 3]}),
            bootstrap=kafka_cluster.bootstrap_servers,
            policy=policy(offline="raise"),
        )


def test_the_partition_that_a_record_was_read_from_is_not_where_it_is_written(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    source, target = kafka_topic(partitions=2), kafka_topic(partitions=6)
    write(mixed(spark, 60), kafka_cluster, source)
    read = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap_servers)
        .option("subscribe", source)
        .load()
    )
    with pytest.raises(ConfigurationError, match="where the rows were read"):
        write(read, kafka_cluster, target)
    write(read.drop("partition"), kafka_cluster, target, row_id=["topic", "offset", "value"])
    assert {record["partition"] for record in stored(spark, kafka_cluster, target)} == set(range(6))


def test_keys_are_not_written_to_places_chosen_without_them(
    spark: "SparkSession", kafka_cluster: KafkaCluster
) -> None:
    with pytest.raises(ConfigurationError, match="have a column key"):
        write(mixed(spark, 1), kafka_cluster, "orders", key=None)
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    with pytest.raises(ConfigurationError, match="foreachBatch"):
        write(stream, kafka_cluster, "orders", key=None)


def test_the_example_writes_its_batches_under_spark_submit(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    where = ("--bootstrap-servers", kafka_cluster.bootstrap_servers, "--topic", kafka_topic(partitions=3))
    done = submit(*connector(), str(EXAMPLE), *where, "--batches", "2")
    assert done.returncode == 0, done.stdout
    assert "keys are hashed by: jvm" in done.stdout
    assert "batch 1: 0 partitions offline" in done.stdout
