"""Keeps tables in shape: old records go, many small files become few, old snapshots go.

Table formats do that by statements of their own, each of which is a transaction. Files are swapped: what is
merged is complete under a name that readers pass over before the first of the small files goes. That name
says what it takes the place of, so whoever comes next finishes what a kill has cut off.
"""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Final

from attrs import frozen
from pyspark.sql import SparkSession

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.ownership import CONTROL_TABLES, TABLES
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.spark.tables.ledger import Ledger, Mark
from kafka_partition_events.spark.tables.storage import Storage
from kafka_partition_events.spark.tables.tables import PARQUET, RECORDS, STATES, Tables, address_of

KEPT: Final = timedelta(days=9)
"""So long records are needed: an event may be seen 8 days before its record was written."""
KEPT_OF_ARCHIVES: Final = timedelta(days=401)
"""The same, where a line may be 400 days older than its file."""

_AGED: Final = (RECORDS, "bronze/control_quarantine")
"""What is dropped when it is old. States are kept: news of an old time is found again from all of them."""
_FILE_BYTES: Final = 128 * 1024**2
_MERGING, _MERGED = "_merging", "_merged"
_REMAINS: Final = (".spark-staging-", "_temporary")

Tell = Callable[[str], None]


def cutoff(mark: Mark, keep: timedelta) -> date | None:
    """Return the day before which records may go; None: there is no news yet."""
    if mark.last_news is None:
        return None
    # From then on blind times are found again with each refresh, until somebody tells that he looks.
    needed = [moment - timedelta(days=2) for moment in mark.stopped.values()]
    return min([mark.last_news - keep, *needed]).date()


# -- files -------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class FileMaintenance:
    """Tables in directories ``day=.../batch=.../``."""

    tables: Tables
    ledger: Ledger
    storage: Storage
    tell: Tell

    def finish(self) -> None:
        """Finish what a kill has cut off."""
        for name in (RECORDS, STATES, *CONTROL_TABLES):
            for merged in self.storage.children(f"{name}/{_MERGED}"):
                self._swap(name, merged)

    def drop_before(self, day: date) -> None:
        """Delete the directories of days."""
        for name in filter(self.tables.exists, _AGED):
            if old := [each for each in self.tables.days(name) if each < day]:
                for each in old:
                    self.storage.delete(f"{name}/day={each}")
                self.tell(f"{name}: {len(old)} days before {day} are dropped")

    def compact(self, mark: Mark) -> None:
        """Merge the batches of each day that is over by a day or more; delete what killed runs have left.

        Args:
            mark: What refreshes have taken up, so that no batch will be written again.
        """
        for name in TABLES:
            for child in self.storage.children(name):
                if child.startswith(_REMAINS):
                    self.storage.delete(f"{name}/{child}")
        if mark.last_news is None:
            return
        closed = (mark.last_news - timedelta(days=1)).date()
        # Spark may write the last batch once more.
        of_control = dict.fromkeys(CONTROL_TABLES, mark.control - 1)
        last = {RECORDS: mark.ingest - 1, STATES: mark.serial, **of_control}
        for name, batch in last.items():
            days = self.tables.days(name) if self.tables.exists(name) else []
            merged = sum(self._merge(name, day, batch) for day in days if day < closed)
            if merged:
                self.tell(f"{name}: the batches of {merged} days are merged")

    def _merge(self, name: str, day: date, last: int) -> bool:
        place = f"{name}/day={day}"
        batches = [batch for batch in self._batches(place) if batch <= last]
        if len(batches) < 2:
            return False
        files = 1 + sum(self.storage.size(f"{place}/batch={batch}") for batch in batches) // _FILE_BYTES
        rows = self.tables.read(name, Days(day, day), batches=batches).drop("day", "batch").coalesce(files)
        merged = f"{day}.{batches[-1]}"
        begun = f"{name}/{_MERGING}/{merged}"
        rows.write.format(PARQUET).mode("overwrite").save(self.storage.path(begun))
        self.ledger.require_turn()
        self.storage.move(begun, f"{name}/{_MERGED}/{merged}")  # from now on it counts
        self._swap(name, merged)
        return True

    def _swap(self, name: str, merged: str) -> None:
        day, last = merged.split(".")
        place = f"{name}/day={day}"
        for batch in self._batches(place):
            if batch <= int(last):
                self.storage.delete(f"{place}/batch={batch}")
        self.storage.move(f"{name}/{_MERGED}/{merged}", f"{place}/batch={last}")

    def _batches(self, place: str) -> list[int]:
        names = (name.removeprefix("batch=") for name in self.storage.children(place))
        return sorted(int(name) for name in names if name.isdecimal())


# -- tables of a catalog -----------------------------------------------------------------------------------

_STATEMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "delta": ("OPTIMIZE {address}", "VACUUM {address}"),
    "iceberg": (
        "CALL {catalog}.system.rewrite_data_files(table => '{table}', options => {options})",
        "CALL {catalog}.system.expire_snapshots(table => '{table}')",
    ),
}
"""What makes few files of many, and deletes what no snapshot needs: after as long as the table says, by
default a week (Delta) and five days (Iceberg)."""
_OPTIONS: Final = "map('min-input-files', '2')"


@frozen(kw_only=True)
class CatalogMaintenance:
    """Tables of a catalog."""

    spark: SparkSession
    tables: Tables
    ledger: Ledger
    out: str
    format: str
    tell: Tell

    def finish(self) -> None:
        """Nothing is to be done: each statement is a transaction."""

    def drop_before(self, day: date) -> None:
        """Delete old records; the files go with their snapshots."""
        for name in filter(self.tables.exists, _AGED):
            address = address_of(self.out, name)
            self.spark.sql(f"DELETE FROM {address} WHERE day < DATE'{day}'")  # noqa: S608 - a date
            self.tell(f"{address}: what was before {day} is deleted")

    def compact(self, mark: Mark) -> None:
        """Run the format's own statements."""
        inner, dot, rest = self.out.partition(".")
        catalog, schema = (inner, rest) if dot else (self.spark.catalog.currentCatalog(), inner)
        for name in filter(self.tables.exists, TABLES):
            where = {"address": address_of(self.out, name), "catalog": catalog}
            for statement in _STATEMENTS[self.format]:
                self.ledger.require_turn()
                self.spark.sql(statement.format(table=address_of(schema, name), options=_OPTIONS, **where))
        self.tell(f"{self.out}: {self.format} has merged small files and dropped old snapshots")


# -- both --------------------------------------------------------------------------------------------------

Maintenance = FileMaintenance | CatalogMaintenance


def maintenance_of(
    spark: SparkSession, tables: Tables, ledger: Ledger, out: str, format_: str, tell: Tell
) -> Maintenance:
    """Return how tables of a format are kept in shape; ``tell`` hears what is done.

    Raises:
        SparkJobError: a table format of which that is not known.
    """
    if format_ == PARQUET:
        here = Storage(spark, out)
        return FileMaintenance(tables=tables, ledger=ledger, storage=here, tell=tell)
    if format_ not in _STATEMENTS:
        raise SparkJobError(f"how tables in {format_} are kept in shape is not known here: see its own tools")
    return CatalogMaintenance(spark=spark, tables=tables, ledger=ledger, out=out, format=format_, tell=tell)
