"""What gold tables are computed from."""

from collections.abc import Callable

from attrs import frozen
from pyspark.sql import DataFrame

from kafka_partition_events.spark.fleet.days import Period


@frozen(kw_only=True)
class Inputs:
    """The tables below, narrowed to what a period needs; still lazy.

    Attributes:
        events: One row per event, as `kafka_partition_events.spark.events.distinct` returns them.
        outages: The rows of ``gold/partition_outages`` that overlap the period or are open.
        blind: When nobody looked, as `kafka_partition_events.spark.fleet.blind.by_cluster` returns it.
        counts: All that there ever were of `kafka_partition_events.spark.fleet.partition_counts.spells`.
        until: ``cluster_id, until`` (microseconds): the last news of each cluster. What has not ended by then
            is open until then, and nothing is said of later times.
    """

    events: DataFrame
    outages: DataFrame
    blind: DataFrame
    counts: DataFrame
    until: DataFrame


GoldTable = Callable[[Inputs, Period], DataFrame]
"""Returns the rows of one gold table whose time lies in the period, and no others. Pure."""
