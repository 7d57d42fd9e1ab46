"""A column with each row's partition: where every other client would put it, and the same each time."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events import ConfigurationError, DefaultPartitioner
from kafka_partition_events.spark.partition_column import with_partition
from kafka_partition_events.spark.partitioner.hashes import by_python, murmur2
from kafka_partition_events.testing.scripted import cluster_of
from tests.partition_column_kit import CALM, HALF_DOWN, KEYS, assert_even, every_key, javas, placed

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def keyed(spark: SparkSession) -> DataFrame:
    return every_key(spark)


@pytest.fixture(scope="module")
def unkeyed(spark: SparkSession) -> DataFrame:
    """Six thousand rows that differ, without a key."""
    return spark.range(6_000).selectExpr(
        "CAST(id AS INT) AS id", "CAST(NULL AS STRING) AS key", "CONCAT('v', id) AS value"
    )


# -- keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 12, 1_000])
def test_a_key_goes_where_all_other_clients_put_it(keyed: DataFrame, count: int) -> None:
    cluster = cluster_of({"orders": [1] * count})
    ours = DefaultPartitioner()
    ours.apply_snapshot(cluster)
    found = placed(keyed, cluster=cluster)
    assert len(found) == len(KEYS)
    for place, key in enumerate(KEYS):
        if key is not None:
            assert found[place] == ours.partition("orders", key, key, None, None, None), key
            assert found[place] == confluent_kafka.murmur2(key, count), key
            assert found[place] == javas(key, count), key


def test_by_crc32_a_key_goes_where_librdkafka_puts_it(keyed: DataFrame) -> None:
    ours = DefaultPartitioner(hash_name="crc32")
    ours.apply_snapshot(CALM)
    found = placed(keyed, hash_name="crc32")
    for place, key in enumerate(KEYS):
        if key:  # an empty one is none to librdkafka
            assert found[place] == confluent_kafka.consistent(key, 6), key
            assert found[place] == ours.partition("orders", key, key, None, None, None), key


@pytest.mark.parametrize("hash_name", ["murmur2", "crc32"])
def test_keys_stay_on_the_partitions_that_the_topic_had(keyed: DataFrame, hash_name: str) -> None:
    grown = cluster_of({"orders": [1, 2, 3] * 4})
    keys = keyed.where("octet_length(key) > 0")
    assert placed(keys, cluster=grown, hash_name=hash_name, key_partitions=6) == placed(
        keys, hash_name=hash_name
    )


def test_the_ways_of_hashing_agree(keyed: DataFrame, spark: SparkSession) -> None:
    """That of Java, and the one in Python, for where there is no JVM to ask."""
    key = F.col("key")
    both = murmur2(spark, key).alias("java"), by_python(key).alias("python")
    rows = keyed.select("key", *both).collect()
    assert [row["java"] for row in rows] == [row["python"] for row in rows]
    assert sum(row["java"] is None for row in rows) == KEYS.count(None)


def test_a_text_key_counts_by_its_utf_8(spark: SparkSession) -> None:
    texts = ["user-1", "", "Zürich", "日本"]
    rows = spark.createDataFrame(list(enumerate(texts)), "id INT, name STRING")
    assert placed(rows, key="name") == {n: javas(text.encode(), 6) for n, text in enumerate(texts)}


def test_the_column_is_int_as_the_sink_demands(keyed: DataFrame) -> None:
    result = with_partition(keyed, topic="orders", cluster=CALM)
    assert [(field.name, field.dataType.simpleString()) for field in result.schema.fields] == [
        ("id", "int"),
        ("key", "binary"),
        ("partition", "int"),
    ]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"key": "id"}, "STRING or BINARY, not INT"),
        ({"key": "user"}, "no column 'user'"),
        ({"topic": ""}, "topic must not be empty"),
        ({"hash_name": "md5"}, "hash_name must be murmur2 or crc32, not 'md5'"),
        ({"key_partitions": 7}, "key_partitions must be 1 to 6, as orders has, not 7"),
        ({"cluster": 7}, "cluster must be a Cluster, host:port addresses or librdkafka settings, not a int"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_by_name(keyed: DataFrame, how: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        placed(keyed, **how)


# -- rows without a key ----------------------------------------------------------------------------------


def test_rows_without_a_key_are_spread_evenly_over_what_is_online(unkeyed: DataFrame) -> None:
    for key in ("key", None):
        assert_even(Counter(placed(unkeyed, key=key).values()), range(6), 1_000)
        assert_even(Counter(placed(unkeyed, key=key, cluster=HALF_DOWN).values()), (0, 2, 3, 5), 1_500)


def test_keys_wait_for_their_partition(keyed: DataFrame) -> None:
    keys = keyed.where("key IS NOT NULL")
    assert placed(keys, cluster=HALF_DOWN) == placed(keys)


def test_rows_that_are_equal_are_spread_too(spark: SparkSession) -> None:
    equal = spark.range(6_000).selectExpr("CAST(NULL AS STRING) AS key")
    found = with_partition(equal, topic="orders", cluster=CALM).collect()
    assert_even(Counter(row["partition"] for row in found), range(6), 1_000)
