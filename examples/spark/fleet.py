"""The fleet pipeline in a job of your own, on the Spark that spark-submit gives.

spark-submit
    --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,io.delta:delta-spark_4.2_2.13:4.4.0
    --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension
    --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog
    fleet.py localhost:9092 /data/kpe                  in one line

The driver needs this package: pip install "kafka-partition-events[events,spark]".
"""

import sys

from pyspark.sql import SparkSession

from kafka_partition_events.spark.ingest.sources import KafkaSource
from kafka_partition_events.spark.pipeline import Fleet, Pipeline
from kafka_partition_events.spark.progress import Lines

if __name__ == "__main__":
    bootstrap, out, topic = [*sys.argv[1:], "kpe.events"][:3]
    spark = SparkSession.builder.appName("fleet").getOrCreate()
    pipeline = Pipeline(spark, Fleet(out=out), Lines())
    mark = pipeline.run_once(KafkaSource(bootstrap=bootstrap, topic=topic))
    print(f"{mark.totals}; the last news is of {mark.last_news}")

    outages = spark.read.format("delta").load(f"{out}/gold/partition_outages")
    outages.orderBy("began_by").select("topic", "partition", "began_by", "ended_by", "cause_broker").show(20)
    spark.stop()
