"""A column with each row's partition: where every other client would put it, and the same each time."""

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from kafka.partitioner.default import murmur2 as kafka_pythons_murmur2

from kafka_partition_events import ConfigurationError, DefaultPartitioner
from kafka_partition_events.testing.scripted import cluster_of
from tests.partition_column_kit import (
    BACKENDS,
    CALM,
    HALF_DOWN,
    KEYS,
    assert_even,
    every_key,
    placed,
    policy,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_partition_events.spark.partition_column import BackendName

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def keyed(spark: "SparkSession") -> "DataFrame":
    """Every key once, with its place in the list."""
    return every_key(spark)


@pytest.fixture(scope="module")
def unkeyed(spark: "SparkSession") -> "DataFrame":
    """Six thousand rows that differ, without a key."""
    return spark.range(6_000).selectExpr(
        "CAST(id AS INT) AS id", "CAST(NULL AS STRING) AS key", "CONCAT('v', id) AS value"
    )


# -- keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [1, 12, 1_000])
def test_a_key_goes_where_all_other_clients_put_it(
    keyed: "DataFrame", backend: "BackendName", count: int
) -> None:
    cluster = cluster_of({"orders": [1] * count})
    ours = DefaultPartitioner()
    ours.apply_snapshot(cluster)
    found = placed(keyed, cluster=cluster, backend=backend)
    assert len(found) == len(KEYS)
    for place, key in enumerate(KEYS):
        if key is not None:
            assert found[place] == ours.partition("orders", key, key, None, None, None), key
            assert found[place] == confluent_kafka.murmur2(key, count), key
            assert found[place] == (kafka_pythons_murmur2(key) & 0x7FFFFFFF) % count, key


def test_both_ways_of_hashing_place_every_row_alike(keyed: "DataFrame", unkeyed: "DataFrame") -> None:
    for rows in (keyed, unkeyed):
        assert placed(rows, backend="jvm") == placed(rows, backend="arrow") == placed(rows)


def test_a_text_key_counts_by_its_utf_8(spark: "SparkSession") -> None:
    texts = ["user-1", "", "Zürich", "日本"]
    rows = spark.createDataFrame(list(enumerate(texts)), "id INT, name STRING")
    expected = {
        place: (kafka_pythons_murmur2(text.encode()) & 0x7FFFFFFF) % 6 for place, text in enumerate(texts)
    }
    for backend in BACKENDS:
        assert placed(rows, key="name", backend=backend) == expected


def test_the_column_is_int_as_the_sink_demands(keyed: "DataFrame") -> None:
    from kafka_partition_events.spark.partition_column import with_partition  # noqa: PLC0415

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
        ({"row_id": ["user"]}, "row_id names columns that the rows do not have: user"),
        ({"topics": ["orders"]}, "the topic here is a constant"),
        ({"topic": ""}, "topic must not be empty"),
        ({"backend": "numba"}, "jvm, arrow, or None, not 'numba'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_by_name(
    keyed: "DataFrame", how: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        placed(keyed, **how)


# -- rows without a key ----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [*BACKENDS, None])
def test_rows_without_a_key_are_spread_evenly_over_what_is_online(
    unkeyed: "DataFrame", backend: "BackendName | None"
) -> None:
    how: dict[str, Any] = {"backend": backend} if backend else {"key": None}
    assert_even(Counter(placed(unkeyed, **how).values()), range(6), 1_000)
    assert_even(Counter(placed(unkeyed, cluster=HALF_DOWN, **how).values()), (0, 2, 3, 5), 1_500)


def test_a_row_is_placed_alike_wherever_it_is_computed(unkeyed: "DataFrame") -> None:
    first = placed(unkeyed)
    assert placed(unkeyed) == first
    assert placed(unkeyed.repartition(5).sortWithinPartitions("value")) == first


def test_equal_rows_of_different_batches_are_placed_differently(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.partition_column import with_partition  # noqa: PLC0415

    row = spark.createDataFrame([(None, "same")], "key STRING, value STRING")
    batches = [with_partition(row, topic="orders", cluster=CALM, batch=batch) for batch in range(8)]
    rows = reduce(lambda some, more: some.unionAll(more), batches).collect()
    assert len({row["partition"] for row in rows}) > 3


def test_rows_may_be_told_apart_by_some_columns_only(unkeyed: "DataFrame") -> None:
    changed = unkeyed.selectExpr("id", "key", "CONCAT(value, 'x') AS value")
    assert placed(changed) != placed(unkeyed)
    assert placed(changed, row_id=["id"]) == placed(unkeyed, row_id=["id"])


def test_maps_are_no_part_of_what_tells_rows_apart(unkeyed: "DataFrame") -> None:
    with_map = unkeyed.selectExpr("*", "MAP('a', id) AS extra")
    assert placed(with_map) == placed(unkeyed)
    with pytest.raises(ConfigurationError, match="can't be hashed: extra"):
        placed(with_map, row_id=["extra"])


def test_the_cap_holds_for_rows_without_a_key_only(keyed: "DataFrame", unkeyed: "DataFrame") -> None:
    capped = policy(cap={"orders": {1, 4}})
    assert set(placed(unkeyed, policy=capped).values()) == {1, 4}
    calm, limited = placed(keyed), placed(keyed, policy=capped)
    assert {place for place in calm if calm[place] != limited[place]} <= {KEYS.index(None)}


# -- what is offline -------------------------------------------------------------------------------------


def test_keys_wait_for_their_partition_unless_the_policy_says_raise(keyed: "DataFrame") -> None:
    keys = keyed.where("key IS NOT NULL")
    assert placed(keys, cluster=HALF_DOWN) == placed(keys)
    with pytest.raises(Exception, match=r"kpe/offline: partition [14] of topic orders has no leader"):
        placed(keys, cluster=HALF_DOWN, policy=policy(offline="raise"))
    assert placed(keys, policy=policy(offline="raise")) == placed(keys)


def test_with_raise_rows_without_a_key_are_rerouted(unkeyed: "DataFrame") -> None:
    found = placed(unkeyed, cluster=HALF_DOWN, policy=policy(offline="raise"))
    assert found == placed(unkeyed, cluster=HALF_DOWN)
    assert set(found.values()) == {0, 2, 3, 5}


def test_with_pin_nothing_moves(unkeyed: "DataFrame") -> None:
    assert placed(unkeyed, cluster=HALF_DOWN, policy=policy(offline="pin")) == placed(unkeyed)


# -- several topics --------------------------------------------------------------------------------------


def test_each_row_may_name_its_topic(spark: "SparkSession", keyed: "DataFrame", unkeyed: "DataFrame") -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    cluster = cluster_of({"orders": [1, None, 3, 1, None, 3], "payments": [1] * 4, "of others": [None]})
    for rows in (keyed, unkeyed):
        both = rows.withColumn("to", F.when(F.col("id") % 2 == 0, "orders").otherwise("payments"))
        found = placed(both, cluster=cluster, topic=F.col("to"), row_id=["id"])
        assert len(found) == both.count()
        for parity, topic in enumerate(("orders", "payments")):
            alone = placed(rows.where(f"id % 2 = {parity}"), cluster=cluster, topic=topic, row_id=["id"])
            assert alone == {place: to for place, to in found.items() if place % 2 == parity}


@pytest.mark.parametrize("name", ["'paymants'", "CAST(NULL AS STRING)"])
def test_a_row_with_an_unknown_topic_fails_the_job(keyed: "DataFrame", name: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    with pytest.raises(Exception, match=r"kpe/unknown: topic (paymants|null) is not in the metadata"):
        placed(keyed, topic=F.expr(name))


def test_with_raise_a_topic_column_is_told_which_partition_is_offline(keyed: "DataFrame") -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    with pytest.raises(Exception, match=r"kpe/offline: partition [14] of topic orders has no leader"):
        placed(keyed, cluster=HALF_DOWN, topic=F.lit("orders"), policy=policy(offline="raise"))
