"""What was seen from outside, as the checks read it: records, lives of topics, events, alerts."""

import json
from collections.abc import Iterable, Iterator
from math import inf
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from tests.chaos.diary import read
from tests.chaos.truth import Truth


@define(slots=True)
class Sent:
    """One record as its application knows it: its last outcome, and how many there were."""

    number: int
    topic: str
    key: str | None
    at: float
    outcomes: int = 0
    heard_at: float = inf
    acked: bool = False
    partition: int | None = None
    offset: int | None = None
    error: str = ""


@define
class Run:
    """One life of a producing process: what it sent, by number; when it was told to end, and had ended."""

    writer: str
    number: int
    sent: dict[int, Sent] = field(factory=dict)
    begun_at: float = inf
    stopped_at: float = inf
    ended_at: float = inf

    @property
    def name(self) -> str:
        return f"{self.writer}.{self.number}"

    @property
    def ended(self) -> bool:
        return self.ended_at < inf


@define
class Life:
    """A topic between its creation and its deletion (or the end), as a plain consumer read it.

    Attributes:
        created_at: When the topic was there for sure.
        read_at: When the reader asked for its end: what was acknowledged before must be there.
        rows: What lies where: (partition, offset) -> the id of the record.
    """

    topic: str
    created_at: float
    read_at: float
    rows: dict[tuple[int, int], str]


@frozen
class Told:
    """A transition as an observer told it, unfolded: one for each change of a digest."""

    id: str
    name: str
    data: dict[str, Any]
    prev_at: float
    at: float


@frozen
class Posted:
    """An alert as an observer posted it: what it is about, and until when it fires by that."""

    name: str
    subject: str
    at: float
    until: float


@define
class History:
    """All of a campaign.

    Attributes:
        calm: (begin, end) of each time without faults, after the cluster had recovered.
        frozen: When processes of ours were suspended: name -> (begin, end).
        ordered: Which records an `OrderedConsumer` has handed out of ``kept``, one after the other.
        received: What the group noted of ``gated``: records by partition and offset.
        group_since: When it had committed on all partitions; before, a member that dies begins at the end.
    """

    runs: list[Run]
    lives: list[Life]
    truth: Truth
    calm: list[tuple[float, float]]
    frozen: dict[str, list[tuple[float, float]]] = field(factory=dict)
    told: list[Told] = field(factory=list)
    posted: list[Posted] = field(factory=list)
    ordered: list[str] = field(factory=list)
    received: dict[tuple[int, int], set[str]] = field(factory=dict)
    group_since: float = -inf


def run_of(path: Path) -> Run:
    """Return what a producing process noted."""
    name, number, _ = path.name.split(".")
    run = Run(name, int(number))
    for kind, at, *what in read(path):
        match kind:
            case "begin":
                run.begun_at = at
            case "stop":
                run.stopped_at = at
            case "end":
                run.ended_at = at
            case "i":
                record, topic, key = what
                run.sent[record] = Sent(record, topic, key, at)
            case "a" | "f":
                _hear(run.sent[what[0]], kind == "a", at, what[1:])
    return run


def _hear(sent: Sent, acked: bool, at: float, what: list[Any]) -> None:
    sent.outcomes, sent.heard_at, sent.acked = sent.outcomes + 1, at, acked
    if acked:
        sent.partition, sent.offset = what
    else:
        sent.error = what[0]


def received(paths: Iterable[Path]) -> dict[tuple[int, int], set[str]]:
    """Return what the group's members noted: which records, by partition and offset."""
    found: dict[tuple[int, int], set[str]] = {}
    for kind, _, *what in (line for path in paths for line in read(path)):
        if kind == "c":
            partition, offset, id_ = what
            found.setdefault((partition, offset), set()).add(id_)
    return found


def unfolded(event: dict[str, Any], moment: Any) -> Iterator[Told]:
    """Yield the transitions that a CloudEvent tells; `moment` reads its times."""
    data = event["data"]
    snapshot, name = data["snapshot"], ".".join(event["type"].split(".")[-3:-1])
    prev_at = -inf if snapshot["prev_at"] is None else moment(snapshot["prev_at"])
    for change in data.get("changes") or [None]:
        one = data if change is None else {**data, **change, "partitions": str(change["partition"])}
        id_ = event["id"] if change is None else change["id"]
        yield Told(id_, name, one, prev_at, moment(snapshot["at"]))


def life_of(path: Path) -> Life:
    """Return what a reader has written down: a heading, and a line for each record."""
    with path.open() as file:
        topic, created_at, read_at = json.loads(file.readline())
        rows = (line.split() for line in file)
        return Life(topic, created_at, read_at, {(int(p), int(o)): id_ for p, o, id_ in rows})
