"""Keeps tables in shape: old records go, many small files become few, and files that no version needs."""

from collections.abc import Iterable
from datetime import date, timedelta
from operator import itemgetter
from typing import Final

from kafka_partition_events.spark.tables.state import Taken
from kafka_partition_events.spark.tables.tables import RECORDS, Tables

KEPT: Final = timedelta(days=9)
"""So long records are needed: an event may be seen 8 days before its record was written."""


def cutoff(mark: Taken, keep: timedelta) -> tuple[date | None, str | None]:
    """Return the day before which records may go, and the cluster that needs more than are to be kept."""
    if (last := mark.last_news) is None:
        return None, None
    # From then on blind times are found again with each refresh, of all clusters, until an observer reports a
    # poll: without the records of one that was shut down, its return would find them from nothing.
    needed = [(since - timedelta(days=2), cluster) for cluster, since in mark.stopped.items()]
    moment, cluster = min([(last - keep, None), *needed], key=itemgetter(0))
    return moment.date(), cluster


def drop_before(tables: Tables, day: date) -> None:
    """Delete old records. States are kept: news of an old time is found again from all of them."""
    tables.spark.sql(f"DELETE FROM {tables.address(RECORDS)} WHERE day < DATE'{day}'")  # noqa: S608 - a date


def compact(tables: Tables, names: Iterable[str]) -> None:
    """Make few files of many; delete what no version of the last week needs."""
    for name in filter(tables.exists, names):
        tables.spark.sql(f"OPTIMIZE {tables.address(name)}")
        tables.spark.sql(f"VACUUM {tables.address(name)}")
