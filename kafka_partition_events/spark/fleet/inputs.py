"""What gold tables are computed from."""

from collections.abc import Callable
from datetime import datetime

from attrs import frozen
from pyspark.sql import DataFrame

from kafka_partition_events.spark.fleet.days import Days


@frozen(kw_only=True)
class Inputs:
    """The tables below, narrowed to what some days need; still lazy.

    Attributes:
        events: One row per event, as `kafka_partition_events.spark.events` parses and merges them, with
            ``day`` (of ``at``).
        outages: The rows of ``gold/partition_outages`` that overlap the days or are open.
        blind: When nobody looked, as `kafka_partition_events.spark.fleet.blind.by_cluster` returns it.
        counts: All that there ever were of `kafka_partition_events.spark.fleet.partition_counts.spells`.
        until: The last news: what has not ended by then is open until then. Aware, UTC.
    """

    events: DataFrame
    outages: DataFrame
    blind: DataFrame
    counts: DataFrame
    until: datetime


GoldTable = Callable[[Inputs, Days], DataFrame]
"""Returns the rows of one gold table whose ``day`` (DATE) lies in the range, and no others. Pure."""
