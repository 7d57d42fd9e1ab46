"""Write a stream to Kafka from Spark, and go on when a broker dies.

    python examples/spark/partitioned_writer.py --bootstrap-servers 127.0.0.1:9092 --topic orders --batches 30

Each batch looks at the cluster once. Rows with a key go where the Java client puts them; rows without one
avoid partitions that are offline. At least once: a repeated batch writes its rows again.
Spark runs on this machine; under ``spark-submit --packages ...`` it is the session of that.
"""

import argparse
import tempfile
import threading

from pyspark.sql import DataFrame, SparkSession

from kafka_partition_events.spark.partition_column import write_to_kafka
from kafka_partition_events.spark.session import opened_session


def main() -> None:
    """Write some batches."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--batches", type=int, default=10)
    arguments = parser.parse_args()

    with opened_session() as spark:
        write_stream(spark, arguments.bootstrap_servers, arguments.topic, arguments.batches)


def write_stream(spark: SparkSession, bootstrap_servers: str, topic: str, batches: int) -> None:
    """Write orders that are made up, a thousand a second."""
    done = threading.Event()

    def write(rows: DataFrame, batch: int) -> None:
        written = write_to_kafka(rows, topic=topic, cluster=bootstrap_servers)
        print(f"batch {batch}: {len(written.offline)} partitions offline", flush=True)
        if batch + 1 >= batches:
            done.set()

    orders = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 1_000)
        .load()
        .selectExpr(
            "IF(value % 2 = 0, CONCAT('user-', value % 100), NULL) AS key", "CONCAT('order-', value) AS value"
        )
    )
    with tempfile.TemporaryDirectory() as checkpoint:
        query = orders.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
        while query.isActive and not done.wait(0.5):
            pass
        failure = query.exception()
        query.stop()
    if failure is not None:
        raise SystemExit(f"error: {failure}")


if __name__ == "__main__":
    main()
