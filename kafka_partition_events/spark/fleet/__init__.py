"""The fleet pipeline: events from Kafka to tables of outages, availability, churn and skew.

docs/decisions/2026-11-21-spark-pipeline.md tells why it is made as it is.
"""
