"""What of the pipeline's work is done: small files beside the checkpoints.

A batch is noted when its table is written, before Spark commits it. A refresh takes up all noted batches.
Before it changes a table it writes down what it is about to change, and when all is changed, what it has
taken up, under a new number. So whatever a crash cuts off is done again: a batch by Spark, a refresh because
its batches are still noted; and what a refresh can't find out again, having changed it itself, is in what
it wrote down before.

One run at a time works on the tables: each takes the next number, by creating a file that must not be there
yet, and one that sees a higher number than its own stops.
"""

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
from attrs import field, frozen

from kafka_partition_events.json_text import json_in
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.tables.days import Days, Hours, joined

if TYPE_CHECKING:
    from kafka_partition_events.spark.tables.storage import Storage

INGEST: Final = "ingest"
CONTROL: Final = "control"

_BATCHES: Final = "batches"
_REFRESHES: Final = "refreshes"
_INTENTS: Final = "intents"
_RUNS: Final = "runs"
_OWNER: Final = "fleet.json"
VERSION: Final = 2
"""Of the tables and of these files."""


@frozen(kw_only=True)
class Counts:
    """How many records. Each that is read is good, or in quarantine for one of the other reasons.

    Attributes:
        read: Records of the source.
        good: Records that are events of ours.
        unparsed: Those that are no CloudEvents of ours.
        unknown: CloudEvents of an unknown type or major version.
        future: Events of an observer whose clock is ahead of the broker's.
        past: Events of an observer whose clock is behind.
        doubles: Observations of an event that another one in the same batches told, too.
        missing: Offsets that were gone before they were read: by retention, or with a topic that was deleted.
            Markers of transactions count as such, too.
    """

    read: int = 0
    good: int = 0
    unparsed: int = 0
    unknown: int = 0
    future: int = 0
    past: int = 0
    doubles: int = 0
    missing: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: n + getattr(other, name) for name, n in attrs.asdict(self).items()})

    def __str__(self) -> str:
        said = [f"{n:,} {name}" for name, n in attrs.asdict(self).items() if n or name in {"read", "good"}]
        return ", ".join(said)


@frozen(kw_only=True)
class Batch:
    """A batch whose tables are written.

    Attributes:
        query: ``INGEST`` or ``CONTROL``.
        number: Spark's number of the batch.
        days: Those of its records' timestamps.
        heard: When the last of its records was appended, of change control.
        counts: What was counted.
    """

    query: str
    number: int
    days: Days | None = None
    heard: datetime | None = None
    counts: Counts = field(factory=Counts)


@frozen(kw_only=True)
class Mark:
    """What refreshes have taken up.

    Attributes:
        serial: How many refreshes there were.
        ingest: The last batch of this query that was taken up; -1: none.
        control: The same of the other one.
        blind: The refresh that wrote ``silver/blind`` last; -1: none.
        until: The last news of each cluster.
        told: The refresh that wrote ``silver/until`` last; -1: none.
        beats: Of each cluster its last ``cluster.summary``.
        stopped: Of a cluster since when its observer can't look, if nobody has told of a look since.
        heard: When the last record of change control was appended.
        totals: What was counted in these batches, but for those of change control.
    """

    serial: int = 0
    ingest: int = -1
    control: int = -1
    blind: int = -1
    told: int = -1
    until: Mapping[str, datetime] = field(factory=dict)
    beats: Mapping[str, datetime] = field(factory=dict)
    stopped: Mapping[str, datetime] = field(factory=dict)
    heard: datetime | None = None
    totals: Counts = field(factory=Counts)

    @property
    def last_news(self) -> datetime | None:
        """The last news of any cluster; None before the first one."""
        return max(self.until.values(), default=None)

    def is_new(self, batch: Batch) -> bool:
        """Tell whether no refresh has taken up the batch yet."""
        return batch.number > (self.ingest if batch.query == INGEST else self.control)

    def after(self, batches: Iterable[Batch], **found: Any) -> "Mark":
        """Return the mark of the next refresh, which takes up batches and has found other attributes."""
        new = [batch for batch in batches if self.is_new(batch)]
        taken = [batch for batch in new if batch.query == INGEST]
        heard = [batch.heard for batch in new if batch.heard is not None]
        return attrs.evolve(
            self,
            serial=self.serial + 1,
            ingest=max([self.ingest, *(batch.number for batch in taken)]),
            control=max([self.control, *(batch.number for batch in new if batch.query == CONTROL)]),
            heard=max([*heard, *([self.heard] if self.heard else [])], default=None),
            totals=sum((batch.counts for batch in taken), self.totals),
            **found,
        )


@frozen(kw_only=True)
class Intent:
    """What a refresh is about to make anew.

    Attributes:
        rated: Hours in which availability changes.
        burnt: Hours in which burn rates change.
        churned: Hours in which leadership moved.
        summed: Hours of which observers told summaries.
        began: Days on which outages began that change.
        grown: Days on which counts of partitions began that change.
    """

    rated: Sequence[Hours] = field(factory=list)
    burnt: Sequence[Hours] = field(factory=list)
    churned: Sequence[Hours] = field(factory=list)
    summed: Sequence[Hours] = field(factory=list)
    began: Sequence[Days] = field(factory=list)
    grown: Sequence[Days] = field(factory=list)

    def joined(self, other: "Intent") -> "Intent":
        """Return what either of them is about to change."""
        names = [one.name for one in attrs.fields(Intent)]
        return Intent(**{name: joined([*getattr(self, name), *getattr(other, name)]) for name in names})


Known = TypeVar("Known", Batch, Mark, Intent)


class Ledger:
    """Reads and writes these files. Several threads may note batches while one refreshes."""

    def __init__(self, storage: "Storage") -> None:
        """Make a ledger in the directory of the checkpoints."""
        self._storage = storage
        self._news = threading.Event()
        self._run: int | None = None

    def checkpoint(self, query: str) -> str:
        """Return where Spark keeps a query's checkpoint."""
        return self._storage.path(f"checkpoints/{query}")

    def offsets(self, query: str, batch: int) -> str | None:
        """Return where a batch ends, as Spark has noted it: JSON; None if it has noted nothing."""
        return self._last_line(f"checkpoints/{query}/offsets/{batch}")

    def first_offsets(self, query: str) -> str | None:
        """Return where a query began, as Spark has noted it."""
        return self._last_line(f"checkpoints/{query}/sources/0/0")

    def _last_line(self, name: str) -> str | None:
        return self._storage.read(name).splitlines()[-1] if self._storage.exists(name) else None

    # -- whose tables these are ----------------------------------------------------------------------

    def claim(self, source: str, tables: str, out: str) -> None:
        """Let the tables be those of a source, for good; and this the run that works on them.

        ``tables`` tells their format, ``out`` where they are as the user wrote it.

        Raises:
            SparkJobError: they are another source's, of another format, or of another version.
        """
        owner = self.owner()
        if owner is None or not self._begun():
            self._storage.delete("checkpoints")  # of a source that could not be read even once
            known = {"id": self.identity, "version": VERSION, "source": source, "tables": tables}
            self._storage.write(_OWNER, json.dumps(known))
        elif owner.get("version") != VERSION:
            raise SparkJobError(
                f"{out} was written by another version of kpe; choose another --out, and take in the same "
                "records once more"
            )
        elif owner.get("tables") != tables:
            raise SparkJobError(
                f"{out} holds {owner.get('tables')}, not {tables}: give the same --format, or another --out"
            )
        elif owner.get("source") != source:
            raise SparkJobError(
                f"{out} is filled from {owner.get('source')}, and its checkpoints mean nothing to {source}: "
                "choose another --out"
            )
        self.take_over()

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
        found = self._read(_OWNER) if self._storage.exists(_OWNER) else None
        return found if isinstance(found, dict) else None

    @cached_property
    def identity(self) -> str:
        """What tells these tables from any others; new, if nobody has claimed them yet."""
        owner = self.owner()
        return str(uuid.uuid4() if owner is None else owner.get("id", ""))

    def _begun(self) -> bool:
        places = [_BATCHES, _REFRESHES, *(f"checkpoints/{query}/offsets" for query in (INGEST, CONTROL))]
        return any(self._storage.children(place) for place in places)

    # -- whose turn it is ----------------------------------------------------------------------------

    def take_over(self) -> None:
        """Let this be the run that works on the tables.

        Raises:
            SparkJobError: another one took them in the same moment.
        """
        runs = self._numbers(_RUNS)
        self._run = max(runs, default=0) + 1
        if not self._storage.create(f"{_RUNS}/{self._run}.json", "{}"):
            raise SparkJobError(f"another kpe spark fleet begins to work on {self._storage.root} just now")
        for run in runs:
            self._storage.delete(f"{_RUNS}/{run}.json")

    def require_turn(self) -> None:
        """Go on only if no later run works on the tables.

        Raises:
            SparkJobError: one does.
        """
        if self._run is not None and max(self._numbers(_RUNS), default=0) > self._run:
            raise SparkJobError(
                f"another kpe spark fleet has begun to work on {self._storage.root} since: this one stops"
            )

    # -- batches -------------------------------------------------------------------------------------

    def note(self, batch: Batch) -> None:
        """Tell that a batch's tables are written. Telling it again changes nothing."""
        self.require_turn()
        self._storage.write(f"{_BATCHES}/{batch.query}-{batch.number}.json", _text(batch))
        self._news.set()

    def has_news(self) -> bool:
        """Tell whether a batch was noted here since `noted` was called."""
        return self._news.is_set()

    def noted(self) -> list[Batch]:
        """Return the batches that are noted, in order."""
        self._news.clear()  # before looking: what is noted meanwhile is news
        found = []
        for name in self._storage.children(_BATCHES):
            batch = self._understood(f"{_BATCHES}/{name}", Batch)
            found += [] if batch is None else [batch]
        return sorted(found, key=lambda batch: (batch.query, batch.number))

    # -- refreshes -----------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return what refreshes have taken up so far."""
        for serial in sorted(self._numbers(_REFRESHES), reverse=True):
            mark = self._understood(f"{_REFRESHES}/{serial}.json", Mark)
            if mark is not None:
                return mark
        return Mark()

    def intended(self) -> Intent:
        """Return what a refresh that was cut off was about to change; nothing, if none was."""
        found = Intent()
        for number in self._numbers(_INTENTS):  # each in a file of its own, for a crash may tear one
            intent = self._understood(f"{_INTENTS}/{number}.json", Intent)
            found = found if intent is None else found.joined(intent)
        return found

    def intend(self, intent: Intent) -> Intent:
        """Write down what is about to be changed; return that, and what was in a refresh that was cut off."""
        self.require_turn()
        intent = intent.joined(self.intended())
        number = max(self._numbers(_INTENTS), default=0) + 1
        self._storage.write(f"{_INTENTS}/{number}.json", _text(intent))
        return intent

    def settle(self, mark: Mark, batches: Sequence[Batch]) -> None:
        """Tell that a refresh has taken up these batches; its tables are written."""
        self.require_turn()
        older = self._numbers(_REFRESHES)
        self._storage.write(f"{_REFRESHES}/{mark.serial}.json", _text(mark))
        self._storage.delete(_INTENTS)
        self.forget(batches)
        for serial in older:
            if serial != mark.serial:
                self._storage.delete(f"{_REFRESHES}/{serial}.json")

    def forget(self, batches: Iterable[Batch]) -> None:
        """Delete the notes of batches that a refresh has taken up."""
        for batch in batches:
            self._storage.delete(f"{_BATCHES}/{batch.query}-{batch.number}.json")

    def _numbers(self, place: str) -> list[int]:
        stems = (name.removesuffix(".json") for name in self._storage.children(place))
        return [int(stem) for stem in stems if stem.isdecimal()]

    def _understood(self, name: str, kind: type[Known]) -> Known | None:
        """Return what a file tells; None if it is gone, or torn by a crash.

        Raises:
            SparkJobError: somebody else has written it, or a disk has damaged it.
        """
        document = self._read(name)
        try:
            return _decoded(kind, document) if isinstance(document, dict) else None
        except (ValueError, OverflowError, LookupError, TypeError, AttributeError) as error:
            raise SparkJobError(
                f"{self._storage.path(name)} is damaged: restore it from a copy, or choose another --out and "
                "take in the same records once more"
            ) from error

    def _read(self, name: str) -> object:
        try:
            found: object = json_in(self._storage.read(name))
        # Gone in this moment; or torn by a crash: what it would tell is then not committed either.
        except (SparkJobError, ValueError):
            return None
        return found


# -- as JSON -----------------------------------------------------------------------------------------------


def _text(value: Batch | Mark | Intent) -> str:
    return json.dumps(attrs.asdict(value, value_serializer=_plain))


def _plain(_owner: Any, _field: Any, item: Any) -> Any:
    return item.isoformat() if hasattr(item, "isoformat") else item


def _decoded(kind: type[Known], document: dict[str, Any]) -> Known:
    names = [one.name for one in attrs.fields(kind) if document.get(one.name) is not None]
    return kind(**{name: _READ[name](document[name]) if name in _READ else document[name] for name in names})


def _days(document: Mapping[str, str]) -> Days:
    return Days(*(date.fromisoformat(document[name]) for name in ("first", "last")))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _moments(document: Mapping[str, str]) -> dict[str, datetime]:
    return {cluster: _moment(text) for cluster, text in document.items()}


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "days": _days,
    "heard": _moment,
    **dict.fromkeys(("until", "beats", "stopped"), _moments),
    **dict.fromkeys(("counts", "totals"), lambda document: Counts(**document)),
    **dict.fromkeys(("rated", "burnt", "churned", "summed"), lambda spans: [Hours(**span) for span in spans]),
    **dict.fromkeys(("began", "grown"), lambda spans: [_days(span) for span in spans]),
}
"""How fields are read that are no plain values."""
