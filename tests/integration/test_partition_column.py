"""Rows in Spark go to the partitions that every other client would choose, and arrive there."""

import importlib.util
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from kafka.partitioner.default import murmur2 as kafka_pythons_murmur2

from kafka_partition_events import ConfigurationError, DefaultPartitioner, PartitionOfflineError
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from kafka_partition_events.testing.scripted import cluster_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafka_partition_events.spark.partition_column import BackendName

pytestmark = pytest.mark.spark

RNG = random.Random(20261121)
KEYS: list[bytes | None] = [
    None,
    b"",
    b"\x00",
    b"\xff\xfe\x80",
    *(RNG.randbytes(RNG.randrange(71)) for _ in range(500)),
    *(b"user-%d" % number for number in range(200)),
]
BACKENDS: tuple["BackendName", ...] = ("jvm", "arrow")
CALM = cluster_of({"orders": [1, 2, 3, 1, 2, 3]})
HALF_DOWN = cluster_of({"orders": [1, None, 3, 1, None, 3]})


@pytest.fixture(scope="module")
def keyed(spark: "SparkSession") -> "DataFrame":
    """Every key once, with its place in the list."""
    return spark.createDataFrame(list(enumerate(KEYS)), "id INT, key BINARY")


@pytest.fixture(scope="module")
def unkeyed(spark: "SparkSession") -> "DataFrame":
    """Six thousand rows that differ, without a key."""
    return spark.range(6_000).selectExpr(
        "CAST(id AS INT) AS id", "CAST(NULL AS STRING) AS key", "CONCAT('v', id) AS value"
    )


def placed(rows: "DataFrame", **how: Any) -> dict[int, int]:
    """Return the partition of each row, by its id."""
    from kafka_partition_events.spark.partition_column import with_partition  # noqa: PLC0415

    how = {"topic": "orders", "cluster": CALM, **how}
    return {
        row["id"]: row["partition"] for row in with_partition(rows, **how).select("id", "partition").collect()
    }


def policy(**choices: Any) -> Any:
    from kafka_partition_events.spark.partition_column import PartitionPolicy  # noqa: PLC0415

    return PartitionPolicy(**choices)


# -- keys ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [1, 12, 1_000])
def test_a_key_goes_where_all_other_clients_put_it(
    keyed: "DataFrame", backend: "BackendName", count: int
) -> None:
    cluster = cluster_of({"orders": [1] * count})
    ours = DefaultPartitioner()
    ours.adopt(cluster)
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


def assert_even(counts: Counter[int], partitions: Any, mean: int) -> None:
    assert set(counts) == set(partitions)
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values()), counts  # five sigma


def test_a_row_is_placed_alike_wherever_it_is_computed(unkeyed: "DataFrame") -> None:
    first = placed(unkeyed)
    assert placed(unkeyed) == first
    assert placed(unkeyed.repartition(5).sortWithinPartitions("value")) == first


def test_equal_rows_of_different_batches_are_placed_differently(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.partition_column import with_partition  # noqa: PLC0415

    row = spark.createDataFrame([(None, "same")], "key STRING, value STRING")
    batches = [with_partition(row, topic="orders", cluster=CALM, batch=batch) for batch in range(30)]
    rows = reduce(lambda some, more: some.unionAll(more), batches).collect()
    assert {row["partition"] for row in rows} == set(range(6))


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


# -- the choice of a way to hash -------------------------------------------------------------------------


@pytest.fixture
def fresh_choice(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the session's way of hashing be chosen anew, and forget what a test has chosen."""
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415

    monkeypatch.setattr(backends, "_chosen", {})
    return monkeypatch


def test_a_classic_session_hashes_in_the_jvm(spark: "SparkSession") -> None:
    from kafka_partition_events.spark.partition_column import backend_of  # noqa: PLC0415

    chosen = backend_of(spark)
    assert (chosen.name, dict(chosen.rejected)) == ("jvm", {})
    assert backend_of(spark) is chosen


def test_a_way_of_hashing_that_answers_wrongly_is_not_used_and_told(
    spark: "SparkSession", keyed: "DataFrame", fresh_choice: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.partition_column import backend_of  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415

    fresh_choice.setattr(backends, "murmur2_column", lambda _session, key: F.hash(key))
    chosen = backend_of(spark)
    assert chosen.name == "arrow"
    assert chosen.rejected["jvm"].startswith("the hash of 0x3231 is -973932308, not ")
    assert placed(keyed) == placed(keyed, backend="arrow")


def test_a_way_of_hashing_that_fails_is_not_used_and_told(
    spark: "SparkSession", fresh_choice: pytest.MonkeyPatch
) -> None:
    from kafka_partition_events.spark.partition_column import KeyHashError, backend_of  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415

    def missing(*_: object) -> Any:
        raise AttributeError("no such class")

    fresh_choice.setattr(backends, "murmur2_column", missing)
    assert backend_of(spark).rejected == {"jvm": "AttributeError: no such class"}
    with pytest.raises(KeyHashError, match="jvm: AttributeError: no such class"):
        backend_of(spark, "jvm")


def test_a_null_that_is_hashed_is_a_wrong_answer(
    spark: "SparkSession", fresh_choice: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    from kafka_partition_events.spark.partition_column import KeyHashError, backend_of  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning import backends  # noqa: PLC0415
    from kafka_partition_events.spark.partitioning.jvm_hash import murmur2_column as right  # noqa: PLC0415

    fresh_choice.setattr(
        backends, "murmur2_column", lambda session, key: F.coalesce(right(session, key), F.lit(0x106E08D9))
    )
    with pytest.raises(KeyHashError, match="the hash of null is None, not 275646681"):
        backend_of(spark, "jvm")


CONNECT = """
import json, sys
from pyspark.sql import SparkSession
from kafka_partition_events.spark.partition_column import backend_of, with_partition
from kafka_partition_events.testing.scripted import cluster_of

spark = SparkSession.builder.remote("local[2]").getOrCreate()
keys = [b"user-1", b"\\xff\\xfe\\x80", b"", None]
rows = spark.createDataFrame(list(enumerate(keys)), "id INT, key BINARY")
found = with_partition(rows, topic="orders", cluster=cluster_of({"orders": [1] * 12})).collect()
chosen = backend_of(spark)
print(json.dumps([chosen.name, sorted(chosen.rejected), [row["partition"] for row in found]]))
spark.stop()
"""


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("grpc", "grpc_status", "pandas", "zstandard")),
    reason="Spark Connect needs pyspark[connect], which is not installed",
)
def test_a_connect_session_hashes_in_python() -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", CONNECT],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    name, rejected, partitions = json.loads(done.stdout.splitlines()[-1])
    assert (name, rejected) == ("arrow", ["jvm"])
    keys = [b"user-1", b"\xff\xfe\x80", b""]
    assert partitions[:3] == [(kafka_pythons_murmur2(key) & 0x7FFFFFFF) % 12 for key in keys]


# -- to Kafka and back -----------------------------------------------------------------------------------


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


def mixed(spark: "SparkSession", count: int) -> "DataFrame":
    """Rows of which every other one has a key."""
    return spark.range(count).selectExpr(
        "IF(id % 2 = 0, CONCAT('user-', id), NULL) AS key", "CONCAT('v', id) AS value"
    )


def write(rows: "DataFrame", cluster: KafkaCluster, topic: Any, **how: Any) -> Any:
    from kafka_partition_events.spark.partition_column import write_to_kafka  # noqa: PLC0415

    return write_to_kafka(rows, topic=topic, cluster=cluster.bootstrap_servers, **how)


@pytest.mark.kafka
def test_rows_arrive_where_they_belong_with_headers_that_tell_them(
    spark: "SparkSession", kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic(partitions=6)
    written = write(mixed(spark, 1_200), kafka_cluster, topic, query="nightly", batch=7)
    assert (written.query, written.batch, written.backend, written.offline) == ("nightly", "7", "jvm", {})
    records = stored(spark, kafka_cluster, topic)
    assert len(records) == 1_200
    ours = DefaultPartitioner()
    ours.adopt(written.cluster)
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


@pytest.mark.kafka
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


@pytest.mark.kafka
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


@pytest.mark.kafka
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


@pytest.mark.kafka
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


@pytest.mark.kafka
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


@pytest.mark.kafka
def test_a_topic_that_the_cluster_does_not_know_fails_before_spark_runs(
    spark: "SparkSession", kafka_cluster: KafkaCluster
) -> None:
    with pytest.raises(SparkJobError, match="no topic 'never-made'"):
        write(mixed(spark, 10), kafka_cluster, "never-made")


@pytest.mark.kafka
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


@pytest.mark.kafka
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


@pytest.mark.kafka
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


@pytest.mark.kafka
def test_keys_are_not_written_to_places_chosen_without_them(
    spark: "SparkSession", kafka_cluster: KafkaCluster
) -> None:
    with pytest.raises(ConfigurationError, match="have a column key"):
        write(mixed(spark, 1), kafka_cluster, "orders", key=None)
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    with pytest.raises(ConfigurationError, match="foreachBatch"):
        write(stream, kafka_cluster, "orders", key=None)


EXAMPLE = Path(__file__).parents[2] / "examples" / "spark" / "partitioned_writer.py"


@pytest.mark.kafka
def test_the_example_writes_its_batches(kafka_cluster: KafkaCluster, kafka_topic: MakeTopic) -> None:
    command = [sys.executable, str(EXAMPLE), "--topic", kafka_topic(partitions=3), "--batches", "2"]
    done = subprocess.run(
        [*command, "--bootstrap-servers", kafka_cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "keys are hashed by: jvm" in done.stdout
    assert "batch 1: 0 partitions offline" in done.stdout
