"""Partitioners for confluent-kafka, kafka-python and aiokafka producers."""
