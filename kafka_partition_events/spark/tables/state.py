"""What of the pipeline's work is done, as JSON. Pure; `state_table` keeps it.

A refresh writes down first which writes of bronze it takes up, and last what it has found. So one that was
cut off is done again with the same records, and finds the same.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import attrs
from attrs import field, frozen

from kafka_partition_events.json_text import json_in
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.tables.counts import Counts

INGEST: Final = "ingest"
CONTROL: Final = "control"


@frozen(kw_only=True)
class Reading:
    """How far a query has read its source.

    Attributes:
        source: The source's name.
        cluster: The id of the cluster that its topic is on.
        topic: That topic's id.
        number: How often it was begun from the beginning: a topic that was created again is another one.
        query: Spark's id of the query, which is in its checkpoint.
        next: By partition, the offset after the last one that was taken up.
        behind: How many offsets there were that were not read yet, when it was last seen.
    """

    source: str
    cluster: str = ""
    topic: str = ""
    number: int = 0
    query: str | None = None
    next: Mapping[str, int] = field(factory=dict)
    behind: int = 0


@frozen(order=True)
class Blind:
    """A time in which no observer polled a cluster, or in which it answered none."""

    cluster: str
    begin: datetime
    end: datetime


@frozen(kw_only=True)
class Taken:
    """What refreshes have taken up.

    Attributes:
        serial: How many refreshes there were.
        taken: By query, the last write of its table that was taken up.
        until: The last news of each cluster.
        beats: Of each cluster its last ``cluster.summary``.
        stopped: Of a cluster since when its observer can't poll, if none has reported a poll since.
        blind: When no observer polled.
        out: When clusters answered no observer.
        totals: What was counted in these batches, but for those of change control.
    """

    serial: int = 0
    taken: Mapping[str, int] = field(factory=dict)
    until: Mapping[str, datetime] = field(factory=dict)
    beats: Mapping[str, datetime] = field(factory=dict)
    stopped: Mapping[str, datetime] = field(factory=dict)
    blind: Sequence[Blind] = ()
    out: Sequence[Blind] = ()
    totals: Counts = field(factory=Counts)

    @property
    def last_news(self) -> datetime | None:
        """The last news of any cluster; None before the first one."""
        return max(self.until.values(), default=None)


@frozen(kw_only=True)
class Taking:
    """What a refresh takes up.

    Attributes:
        serial: Its number.
        upto: By query, the last write of its table.
    """

    serial: int
    upto: Mapping[str, int]


@frozen(kw_only=True)
class StateRow:
    """The row.

    Attributes:
        run: The number of the last run.
        by: What distinguishes it from others that took the same number.
        ended: Whether it has ended in good order, and writes no more.
        mark: What is done.
        taking: What is being done; None: nothing, or it was not cut off.
        readings: By query, how far it is.
    """

    run: int = 0
    by: str = ""
    ended: bool = True
    mark: Taken = field(factory=Taken)
    taking: Taking | None = None
    readings: Mapping[str, Reading] = field(factory=dict)


# -- as JSON -----------------------------------------------------------------------------------------------


def encoded(state: StateRow) -> str:
    """Return the state as JSON."""
    return json.dumps(attrs.asdict(state, value_serializer=_plain))


def decoded(text: str) -> StateRow:
    """Return the state that such a text holds.

    Raises:
        SparkJobError: it holds none.
    """
    try:
        document: Any = json_in(text)
        document["mark"] = _of(Taken, document["mark"])
        document["taking"] = document["taking"] and _of(Taking, document["taking"])
        document["readings"] = {name: _of(Reading, one) for name, one in document["readings"].items()}
        return StateRow(**document)
    except (ValueError, OverflowError, LookupError, TypeError, AttributeError) as error:
        raise SparkJobError("the state of the tables is damaged: choose another --out") from error


def _plain(_owner: Any, _field: Any, item: Any) -> Any:
    return item.isoformat() if hasattr(item, "isoformat") else item


def _of(kind: Callable[..., Any], document: Mapping[str, Any]) -> Any:
    return kind(**{name: _READ.get(name, _as_it_is)(found) for name, found in document.items()})


def _as_it_is(found: Any) -> Any:
    return found


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _moments(found: Mapping[str, str]) -> dict[str, datetime]:
    return {cluster: _moment(text) for cluster, text in found.items()}


def _spans(found: Iterable[Mapping[str, str]]) -> tuple[Blind, ...]:
    return tuple(Blind(one["cluster"], _moment(one["begin"]), _moment(one["end"])) for one in found)


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("until", "beats", "stopped"), _moments),
    **dict.fromkeys(("blind", "out"), _spans),
    "totals": lambda found: Counts(**found),
}
"""How fields are read that are no plain values."""
