"""The state of a pipeline as the row of a small table, and whose tables these are: its properties.

One run at a time works on the tables: each takes the next number, and what an earlier one still writes is
passed over, see `Fence`.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import evolve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.tables.state import StateRow, decoded, encoded
from kafka_partition_events.spark.tables.tables import Fence, Tables

STATE: Final = "kpe/state"
VERSION: Final = "4"
"""Of the tables and of the state."""
_OWNER, _VERSION = "kpe.owner", "kpe.version"


class StateTable:
    """Reads and writes the state."""

    def __init__(self, tables: Tables) -> None:
        """Keep it beside these tables."""
        self._tables = tables

    def is_there(self) -> bool:
        """Return whether a run has begun these tables."""
        return self._tables.exists(STATE)

    def read(self) -> StateRow:
        """Return the state; of a run that ended before it wrote one, that of none."""
        found = self._tables.read(STATE).collect()
        return decoded(found[0]["state"]) if found else StateRow()

    def write(self, state: StateRow) -> None:
        """Write the state, as the run that has taken over.

        Raises:
            SparkJobError: a later run has taken over since; nothing was written.
        """
        self._tables.overwrite(STATE, _row(self._tables, state))
        if (there := self.read()).by != state.by:
            raise SparkJobError(
                f"another kpe spark fleet has begun to work on {self._tables.out} since (run {there.run}): "
                f"this one (run {state.run}) stops"
            )

    def take_over(self, names: Iterable[str]) -> StateRow:
        """Let this be the run that works on the tables of these names; return their state.

        Raises:
            SparkJobError: they are another pipeline's or of another version, or another run took them in the
                same moment.
        """
        tables = self._tables
        self._require_own(names)
        if not self.is_there():
            owned, schema = {_OWNER: str(uuid.uuid4()), _VERSION: VERSION}, _row(tables, StateRow()).schema
            tables.ensure(STATE, schema, owned)
        before = self.read()
        tables.fence = Fence(owner=self._owner(), run=before.run + 1)
        taken = evolve(before, run=before.run + 1, by=str(uuid.uuid4()), ended=False)
        self.write(taken)
        if not before.ended:  # it may sleep, and go on with what it was about to write
            for name in filter(tables.exists, names):
                tables.touch(name)
        return taken

    def owned(self) -> Mapping[str, str]:
        """Return the properties by which each table says whose it is."""
        return {_OWNER: self._owner(), _VERSION: VERSION}

    def _require_own(self, names: Iterable[str]) -> None:
        owner = self._owner() if self.is_there() else None
        for name in filter(self._tables.exists, names):
            if (found := self._tables.properties(name).get(_OWNER)) is None or found != owner:
                raise SparkJobError(
                    f"{self._tables.address(name)} was not made by this kpe spark fleet (its owner is "
                    f"{found}): choose another --out"
                )

    def _owner(self) -> str:
        known = self._tables.properties(STATE)
        if known.get(_VERSION) != VERSION:
            raise SparkJobError(
                f"{self._tables.out} was written by another version of kpe; choose another --out, and take "
                "in the same records again"
            )
        return known[_OWNER]


def _row(tables: Tables, state: StateRow) -> DataFrame:
    return tables.spark.range(1, numPartitions=1).select(F.lit(encoded(state)).alias("state"))
