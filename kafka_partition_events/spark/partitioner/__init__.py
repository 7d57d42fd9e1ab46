"""Which partition of a Kafka topic each row of a DataFrame goes to.

The public names are those of `kafka_partition_events.spark.partition_column`.
"""
