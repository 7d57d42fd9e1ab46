"""Whose tables are where a pipeline is to write: it writes into no other one's, in no format.

Two pipelines know nothing of each other's batches: one that went on with the tables of another one, or with
its own after their ledger was lost, would replace some batches and double the rest.
"""

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from kafka_partition_events.json_text import json_in
from kafka_partition_events.spark.control import refresh as control
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.refresh.gold import OF_EVENTS, OF_LASTING
from kafka_partition_events.spark.tables.ledger import VERSION
from kafka_partition_events.spark.tables.storage import Storage
from kafka_partition_events.spark.tables.tables import (
    BLIND,
    COUNTS,
    OUTAGES,
    PARQUET,
    RECORDS,
    STANDING,
    STATES,
    UNTIL,
    address_of,
)

CONTROL_TABLES: Final = ("silver/changes", "silver/leases", "silver/acks", "bronze/control_quarantine")
TABLES: Final = (
    *(RECORDS, STATES, STANDING, BLIND, UNTIL, OUTAGES, COUNTS, *CONTROL_TABLES),
    *(f"gold/{name}" for name in (*OF_LASTING, *OF_EVENTS, *control.TABLES)),
)
"""All that a pipeline may write."""

_OWNER: Final = "kpe.owner"
_MARK: Final = "_owner.json"
"""In ``--out`` of file formats. Spark's readers pass over it."""


def properties(owner: str) -> Mapping[str, str]:
    """Return the properties by which a catalog's table tells whose it is."""
    return {_OWNER: owner, "kpe.version": str(VERSION)}


def refuse_others(spark: SparkSession, out: str, format_: str, owner: str, *, begun: bool) -> None:
    """Go on only if there is nothing yet in a directory or a namespace, or what is there is the owner's.

    ``begun``: whether a run before this one has begun to fill them.

    Raises:
        SparkJobError: there is something of somebody else.
    """
    if format_ == PARQUET:
        here = Storage(spark, out)
        if (found := _marked(here)) is not None:
            _require(out, found, owner)
        elif not begun and (others := sorted(here.children() - {"_kpe"})):
            raise SparkJobError(
                f"{out} holds something else ({', '.join(others[:3])}): choose an empty directory, or one "
                "that kpe spark fleet has made"
            )
        return
    for table in (address_of(out, name) for name in TABLES):
        if spark.catalog.tableExists(table):
            known = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
            _require(table, known.get(_OWNER), owner)


def own(spark: SparkSession, out: str, format_: str, owner: str) -> None:
    """Let a directory tell whose tables it holds. Tables of a catalog tell it themselves."""
    if format_ == PARQUET and _marked(here := Storage(spark, out)) is None:
        here.write(_MARK, json.dumps(properties(owner)))


def _marked(here: Storage) -> str | None:
    """Return whose tables a directory holds; None if it does not tell, or a crash has torn what it tells."""
    try:
        return str(json_in(here.read(_MARK))[_OWNER]) if here.exists(_MARK) else None
    except (SparkJobError, ValueError, LookupError, TypeError):
        return None


def _require(what: str, found: str | None, owner: str) -> None:
    if found != owner:
        whose = "was not made by kpe spark fleet" if found is None else "belongs to another kpe spark fleet"
        raise SparkJobError(
            f"{what} {whose}: choose another --out, or give the --work with which it was made (its owner is "
            f"{found}, this one's work is of {owner})"
        )
