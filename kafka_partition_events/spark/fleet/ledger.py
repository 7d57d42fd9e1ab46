"""What of the pipeline's work is done: small files beside the checkpoints.

A batch is noted when its tables are written, before Spark commits it. A refresh takes up all noted batches
and, when its tables are written, writes what it has taken up under a new number. So whatever a crash cuts
off is done again: a batch by Spark, a refresh because its batches are still noted. A file that a crash has
torn is as good as none, for what it would tell is then not committed either.
"""

import json
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import attrs
from attrs import field, frozen

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.fleet.progress import Counts
from kafka_partition_events.spark.fleet.storage import Storage

INGEST: Final = "ingest"
OUTAGES: Final = "outages"
CONTROL: Final = "control"

_BATCHES: Final = "batches"
_REFRESHES: Final = "refreshes"
_OWNER: Final = "fleet.json"
_VERSION: Final = 1


@frozen(kw_only=True)
class Batch:
    """A batch whose tables are written.

    Attributes:
        query: ``INGEST``, ``OUTAGES`` or ``CONTROL``.
        number: Spark's number of the batch.
        first: The earliest ``at`` of its events; None if it has none.
        last: The latest.
        seen: The latest that is not in the future.
        heard: When the last of its records was appended, of change control.
        counts: What was counted.
    """

    query: str
    number: int
    first: datetime | None = None
    last: datetime | None = None
    seen: datetime | None = None
    heard: datetime | None = None
    counts: Counts = field(factory=Counts)


@frozen(kw_only=True)
class Mark:
    """What refreshes have taken up.

    Attributes:
        serial: How many refreshes there were.
        ingest: The last batch of this query that was taken up; -1: none.
        outages: The same of the second query.
        control: The same of the third one.
        snapshot: The refresh that wrote ``silver/outages`` last; -1: none.
        since: The earliest event.
        until: The last news.
        heard: When the last record of change control was appended.
        totals: What was counted in these batches, but for those of change control.
    """

    serial: int = 0
    ingest: int = -1
    outages: int = -1
    control: int = -1
    snapshot: int = -1
    since: datetime | None = None
    until: datetime | None = None
    heard: datetime | None = None
    totals: Counts = field(factory=Counts)

    def is_new(self, batch: Batch) -> bool:
        """Tell whether no refresh has taken up the batch yet."""
        return batch.number > self.last(batch.query)

    def last(self, query: str) -> int:
        """Return the last batch of a query that was taken up."""
        return {INGEST: self.ingest, OUTAGES: self.outages, CONTROL: self.control}[query]

    def after(self, batches: Iterable[Batch], *, doubles: int = 0, snapshot: int | None = None) -> "Mark":
        """Return the mark of the next refresh.

        Args:
            batches: What it takes up.
            doubles: How many doubles it finds.
            snapshot: Which refresh's ``silver/outages`` holds then; None: the same as before.
        """
        new = [batch for batch in batches if self.is_new(batch)]

        def last(query: str) -> int:
            return max([self.last(query), *(batch.number for batch in new if batch.query == query)])

        told = (batch.counts for batch in new if batch.query != CONTROL)
        return Mark(
            serial=self.serial + 1,
            ingest=last(INGEST),
            outages=last(OUTAGES),
            control=last(CONTROL),
            snapshot=self.snapshot if snapshot is None else snapshot,
            since=min(_known(self.since, *(batch.first for batch in new)), default=None),
            until=max(_known(self.until, *(batch.seen for batch in new)), default=None),
            heard=max(_known(self.heard, *(batch.heard for batch in new)), default=None),
            totals=sum(told, self.totals + Counts(doubles=doubles)),
        )


def _known(*moments: datetime | None) -> list[datetime]:
    return [moment for moment in moments if moment is not None]


class Ledger:
    """Reads and writes these files. Several threads may note batches while one refreshes."""

    def __init__(self, storage: Storage) -> None:
        """Make a ledger.

        Args:
            storage: The directory for its files and the checkpoints.
        """
        self._storage = storage
        self._news = threading.Event()

    def checkpoint(self, query: str) -> str:
        """Return where Spark keeps a query's checkpoint."""
        return self._storage.path(f"checkpoints/{query}")

    # -- whose tables these are ----------------------------------------------------------------------

    def claim(self, source: str, tables: str, out: str) -> None:
        """Let the tables be those of a source, for good.

        Args:
            source: What tells the source from others.
            tables: The format of the tables and where they are.
            out: The same as the user wrote it.

        Raises:
            SparkJobError: they are another source's, of another format, or of a newer version.
        """
        owner = self.owner()
        if owner is None or not self._begun():
            self._storage.delete("checkpoints")  # of a source that could not be read even once
            mine = {"version": _VERSION, "source": source, "tables": tables}
            self._storage.write(_OWNER, json.dumps(mine))
            return
        if owner.get("version") != _VERSION:
            raise SparkJobError(f"{out} was written by another version of kpe; choose another --out")
        if owner.get("tables") != tables:
            raise SparkJobError(
                f"{out} holds {owner.get('tables')}, not {tables}: give the same --format, or another --out"
            )
        if owner.get("source") != source:
            raise SparkJobError(
                f"{out} is filled from {owner.get('source')}, and its checkpoints mean nothing to {source}: "
                "choose another --out"
            )

    def claim_control(self, source: str, out: str) -> None:
        """Let the tables of changes be those of a source, for good. After `claim`.

        Raises:
            SparkJobError: they are another source's.
        """
        owner = self.owner() or {}
        if owner.setdefault("control", source) != source:
            raise SparkJobError(
                f"the changes in {out} are filled from {owner['control']}, not from {source}: give the same "
                "--control-prefix, or another --out"
            )
        self._storage.write(_OWNER, json.dumps(owner))

    def owner(self) -> dict[str, Any] | None:
        """Return what `claim` wrote; None if nobody has, or if a crash has torn it at the very beginning."""
        found = self._document(_OWNER) if self._storage.exists(_OWNER) else None
        return found if isinstance(found, dict) else None

    def _begun(self) -> bool:
        places = [
            _BATCHES,
            _REFRESHES,
            *(f"checkpoints/{query}/offsets" for query in (INGEST, OUTAGES, CONTROL)),
        ]
        return any(self._storage.children(place) for place in places)

    # -- batches -------------------------------------------------------------------------------------

    def note(self, batch: Batch) -> None:
        """Tell that a batch's tables are written. Telling it again changes nothing."""
        self._storage.write(f"{_BATCHES}/{batch.query}-{batch.number}.json", json.dumps(_encoded(batch)))
        self._news.set()

    def has_news(self) -> bool:
        """Tell whether a batch was noted here since `noted` was called."""
        return self._news.is_set()

    def noted(self) -> list[Batch]:
        """Return the batches that are noted, in order."""
        self._news.clear()  # before looking: what is noted meanwhile is news
        found = []
        for name in self._storage.children(_BATCHES):
            document = self._document(f"{_BATCHES}/{name}")
            if isinstance(document, dict):
                found.append(_decoded(Batch, document))
        return sorted(found, key=lambda batch: (batch.query, batch.number))

    # -- refreshes -----------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return what refreshes have taken up so far."""
        for serial in sorted(self._serials(), reverse=True):
            document = self._document(f"{_REFRESHES}/{serial}.json")
            if isinstance(document, dict):
                return _decoded(Mark, document)
        return Mark()

    def settle(self, mark: Mark, batches: Sequence[Batch]) -> None:
        """Tell that a refresh has taken up these batches; its tables are written."""
        older = self._serials()
        self._storage.write(f"{_REFRESHES}/{mark.serial}.json", json.dumps(_encoded(mark)))
        self.forget(batches)
        for serial in older:
            if serial != mark.serial:
                self._storage.delete(f"{_REFRESHES}/{serial}.json")

    def forget(self, batches: Iterable[Batch]) -> None:
        """Delete the notes of batches that a refresh has taken up."""
        for batch in batches:
            self._storage.delete(f"{_BATCHES}/{batch.query}-{batch.number}.json")

    def _serials(self) -> list[int]:
        stems = (name.removesuffix(".json") for name in self._storage.children(_REFRESHES))
        return [int(stem) for stem in stems if stem.isdecimal()]

    def _document(self, name: str) -> object:
        try:
            found: object = json.loads(self._storage.read(name))
        except (SparkJobError, ValueError):  # torn, or gone in this moment
            return None
        return found


Kind = TypeVar("Kind", Batch, Mark)


def _encoded(value: Batch | Mark) -> dict[str, Any]:
    def plain(_owner: Any, _field: Any, item: Any) -> Any:
        return item.isoformat() if isinstance(item, datetime) else item

    return attrs.asdict(value, value_serializer=plain)


def _decoded(kind: type[Kind], document: dict[str, Any]) -> Kind:
    values = {field.name: document[field.name] for field in attrs.fields(kind) if field.name in document}
    for name in ("first", "last", "seen", "heard", "since", "until"):
        if values.get(name) is not None:
            values[name] = datetime.fromisoformat(values[name]).astimezone(UTC)
    for name in ("counts", "totals"):
        if name in values:
            values[name] = Counts(**values[name])
    return kind(**values)
