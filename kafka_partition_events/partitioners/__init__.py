"""Partitioners for confluent-kafka and kafka-python producers: one file each."""
