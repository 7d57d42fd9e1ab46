"""Which tables a pipeline keeps, and what columns they have before a row is there."""

from collections.abc import Mapping
from datetime import date
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from kafka_partition_events.spark import events
from kafka_partition_events.spark.control.convergence import CONVERGENCE, change_convergence
from kafka_partition_events.spark.gold import blind, outages, partition_counts
from kafka_partition_events.spark.gold.availability import Lasting
from kafka_partition_events.spark.gold.clusters import Clusters
from kafka_partition_events.spark.refresh.gold import OF_EVENTS, OF_LASTING
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.spark.tables.tables import (
    CHANGES,
    CLUSTER_OUTAGES,
    COUNTS,
    OUTAGES,
    RECORDS,
    STANDING,
    STATES,
    Tables,
)

TABLES: Final = (
    *(RECORDS, STATES, STANDING, CHANGES, OUTAGES, CLUSTER_OUTAGES, COUNTS, CONVERGENCE),
    *(f"gold/{name}" for name in (*OF_LASTING, *OF_EVENTS)),
)
"""All that a pipeline may write."""

_ANY: Final = Days(date(2000, 1, 1), date(2000, 1, 1))


def ensure(tables: Tables, kept: StateTable, taken: DataFrame, changes: DataFrame | None) -> None:
    """Make the tables that are not there.

    Args:
        tables: Where they are.
        kept: Knows whose they are.
        taken: Rows of ``bronze/records``; none is read.
        changes: Rows of ``silver/changes``; None: no tables of changes.
    """
    wanted = [name for name in TABLES if changes is not None or name not in (CHANGES, CONVERGENCE)]
    missing = [name for name in wanted if not tables.exists(name)]
    if not missing:
        return
    schemas = {**_of_events(taken), **({} if changes is None else _of_changes(changes))}
    owned = kept.owned()
    for name in missing:
        fed = {"delta.enableChangeDataFeed": "true"} if name in (RECORDS, CHANGES) else {}
        tables.ensure(name, schemas[name], {**owned, **fed})


def _of_events(taken: DataFrame) -> Mapping[str, StructType]:
    reported = events.observations(taken, "timestamp")
    lasting = outages.states(reported)
    found = outages.partition_outages(outages.all_outages(lasting), lasting, Clusters())
    counts = partition_counts.spells(lasting)
    known = Lasting(outages=found, counts=counts, clusters=Clusters())
    day = F.lit(None).cast("date").alias("day")
    rows = {
        RECORDS: taken,
        STATES: lasting.select("*", day),
        STANDING: outages.standing_of(outages.runs_of(lasting), lasting).select("*", day),
        OUTAGES: found,
        CLUSTER_OUTAGES: blind.rows_of(taken.sparkSession, ()),
        COUNTS: counts.select("*", day),
        **{f"gold/{name}": table(known, _ANY) for name, table in OF_LASTING.items()},
        **{f"gold/{name}": table(reported, _ANY) for name, (_, table) in OF_EVENTS.items()},
    }
    return {name: one.schema for name, one in rows.items()}


def _of_changes(changes: DataFrame) -> Mapping[str, StructType]:
    return {CHANGES: changes.schema, CONVERGENCE: change_convergence(changes).schema}
