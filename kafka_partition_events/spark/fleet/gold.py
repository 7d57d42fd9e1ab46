"""The gold tables, and what each needs to know."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame

from kafka_partition_events.spark import events
from kafka_partition_events.spark.fleet import availability, blind
from kafka_partition_events.spark.fleet.inputs import GoldTable, Inputs
from kafka_partition_events.spark.fleet.leader_churn import leader_churn
from kafka_partition_events.spark.fleet.partition_counts import partition_count_history, spells
from kafka_partition_events.spark.fleet.reroutes import reroutes
from kafka_partition_events.spark.fleet.skew import skew
from kafka_partition_events.spark.fleet.slo_burn import slo_burn
from kafka_partition_events.spark.fleet.states import states

TABLES: Final[Mapping[str, GoldTable]] = MappingProxyType(
    {
        "availability_hourly": availability.hourly,
        "availability_daily": availability.daily,
        "slo_burn": slo_burn,
        "leader_churn": leader_churn,
        "skew": skew,
        "partition_count_history": partition_count_history,
        "reroutes": reroutes,
    }
)
"""By name. ``partition_outages`` is not among them: they are made from it
(`kafka_partition_events.spark.fleet.outages_gold`)."""


def inputs_of(told: DataFrame, outages: DataFrame, until: DataFrame) -> Inputs:
    """Return inputs, with what follows from the observations.

    Args:
        told: All observations.
        outages: Rows of ``gold/partition_outages``.
        until: The last news of each cluster.
    """
    return Inputs(
        events=events.distinct(told),
        outages=outages,
        until=until,
        blind=blind.by_cluster(blind.intervals(told, until)),
        counts=spells(states(told)),
    )
