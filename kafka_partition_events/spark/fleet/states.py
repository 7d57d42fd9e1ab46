"""What is told of partitions, topics and brokers, in narrow rows: whatever lasts is made from them."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark import outages
from kafka_partition_events.spark.events import LABELS
from kafka_partition_events.spark.fleet.partition_counts import NAMES as TELL_COUNTS

NAMES: Final = frozenset({*outages.TELLING, *TELL_COUNTS, "broker.left"})


def states(observations: DataFrame, *keep: str) -> DataFrame:
    """Return the rows of ``silver/states``: observations of `NAMES`, doubles included.

    Args:
        observations: As `kafka_partition_events.spark.events.observations` returns them.
        *keep: Columns of theirs that come last, unchanged.
    """
    told = observations.where(F.col("name").isin(*sorted(NAMES)))
    return outages.states(told, "topic_id", "count_after", "broker", *LABELS, *keep)
