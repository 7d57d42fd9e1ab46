"""A client of Spark Connect, for ``test_spark_connect.py``: does all once and tells what came of it, as JSON.

usage: python connect_job.py SERVER BOOTSTRAP TOPIC STREAMED DIRECTORY
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events import KafkaPartitionEventsError
from kafka_partition_events.spark.partition_column import write_to_kafka
from kafka_partition_events.spark.pipeline import Fleet, Pipeline
from kafka_partition_events.spark.whatif.analysis import what_if
from kafka_partition_events.spark.whatif.plan import scenarios
from kafka_partition_events.spark.whatif.sample import of_frame
from tests.partition_column_kit import HALF_DOWN, KEYS, every_key, mixed, placed, stored

SERVER, BOOTSTRAP, TOPIC, STREAMED, DIRECTORY = sys.argv[1:]


def main() -> None:
    spark = SparkSession.builder.remote(SERVER).getOrCreate()
    keyless = spark.sql("SELECT INT(id), STRING(NULL) AS key FROM range(600)")
    told = {
        "session": type(spark).__module__,
        "keys": placed(every_key(spark), cluster=HALF_DOWN),
        "unkeyed": list(placed(keyless, cluster=HALF_DOWN).values()),
        "written": write_to_kafka(mixed(spark, 600), topic=TOPIC, cluster=BOOTSTRAP).hash_name,
        "records": records(spark, TOPIC),
        "refused": refused(spark),
        "streamed": streamed(spark),
        "outcomes": outcomes(spark),
    }
    spark.stop()
    sys.stdout.write(json.dumps(told) + "\n")


def records(spark: SparkSession, topic: str) -> list[Any]:
    """Return the key, value and partition of a topic's records."""
    return [
        [None if row["key"] is None else row["key"].decode(), row["value"].decode(), row["partition"]]
        for row in stored(spark, BOOTSTRAP, topic).collect()
    ]


def refused(spark: SparkSession) -> dict[str, list[str]]:
    """Return what is said of what can't be done."""
    tried: dict[str, Callable[[], object]] = {
        "unknown": lambda: write_to_kafka(
            mixed(spark, 100), topic="never-made", cluster=BOOTSTRAP, bootstrap=BOOTSTRAP
        ),
        "fleet": lambda: Pipeline(spark, Fleet(out=f"{DIRECTORY}/tables")),
    }
    return {name: saying(run) for name, run in tried.items()}


def saying(run: Callable[[], object]) -> list[str]:
    try:
        run()
    except KafkaPartitionEventsError as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


def streamed(spark: SparkSession) -> list[Any]:
    """Write a stream, whose batches Spark hands to a Python process beside the server; return its records."""
    files = str(Path(DIRECTORY) / "rows")
    mixed(spark, 100).write.parquet(files)
    topic, bootstrap = STREAMED, BOOTSTRAP  # the function goes there by value

    def write(rows: DataFrame, _batch: int) -> None:
        write_to_kafka(rows, topic=topic, cluster=bootstrap)

    query = (
        spark.readStream.schema("key STRING, value STRING")
        .parquet(files)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(Path(DIRECTORY) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(120):
        raise SystemExit("the stream did not end")
    return records(spark, STREAMED)


def outcomes(spark: SparkSession) -> list[list[int]]:
    """Return what each scenario of the planner comes to: records moved, then those of each partition."""
    asked = scenarios(12, [13, 24], ["modulo", "kept"])
    sample = of_frame(spark.createDataFrame([(key,) for key in KEYS], "key BINARY"), "keys")
    found = what_if(sample, asked, hottest=0).outcomes
    return [[each.moved, *each.after] for each in found]


if __name__ == "__main__":
    main()
