"""The gold tables, and what each needs to know."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from attrs import evolve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.fleet import availability, blind
from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.fleet.inputs import GoldTable, Inputs
from kafka_partition_events.spark.fleet.leader_churn import leader_churn
from kafka_partition_events.spark.fleet.partition_counts import partition_count_history, spells
from kafka_partition_events.spark.fleet.reroutes import reroutes
from kafka_partition_events.spark.fleet.skew import skew
from kafka_partition_events.spark.fleet.slo_burn import REACH, slo_burn

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

WHOLE: Final = frozenset({"partition_count_history"})
"""Small tables in which news of one day changes rows of any earlier day: remake all their days."""

DAYS_AFTER: Final[Mapping[str, int]] = MappingProxyType({"slo_burn": REACH.days})
"""News of a day change a table's rows of so many days after it, too; of a table not listed here: of none."""


def inputs_of(events: DataFrame, outages: DataFrame, until: datetime) -> Inputs:
    """Return inputs, with what follows from the events.

    Args:
        events: One row per event: all of `blind.LASTING`, and of all others those near the days wanted.
        outages: Rows of ``gold/partition_outages``.
        until: The last news.
    """
    return Inputs(
        events=events,
        outages=outages,
        until=until,
        blind=blind.by_cluster(events, until),
        counts=spells(events),
    )


def narrowed(inputs: Inputs, days: Days) -> Inputs:
    """Return what the tables need of all events and outages to compute these days.

    Events: those of the days, of three days before and one after, all with a gap, and all that
    `blind.LASTING` names. Outages: those that overlap the same days, or are open.

    Args:
        inputs: All events and outages.
        days: The days.
    """
    reach = near(days)
    close = F.col("day").between(F.lit(reach.first), F.lit(reach.last))
    events = inputs.events.where(blind.lasting() | close)
    return evolve(inputs, events=events, outages=_overlapping(inputs.outages, reach))


def near(days: Days) -> Days:
    """Return the days whose events these days' tables need."""
    return Days(days.first - REACH, days.widened(1).last)


def _overlapping(outages: DataFrame, days: Days) -> DataFrame:
    begins = F.coalesce("began_after", "began_by") < F.lit(days.end)
    ends = F.col("ended_by").isNull() | (F.col("ended_by") >= F.lit(days.begin))
    return outages.where(begins & ends)
