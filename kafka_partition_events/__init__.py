"""Metadata-aware partitioners for Kafka producers, with typed partition-change events."""

__version__ = "0.1.0"
