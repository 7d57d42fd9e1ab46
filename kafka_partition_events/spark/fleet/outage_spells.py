"""What sightings of a partition say together: spells of being online or offline, and the outages among them.

All times are integers, microseconds since 1970 in UTC.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from attrs import define, evolve

NEVER: Final = -(1 << 63)
"""A time before all others: nobody looked before."""

_KEPT_IDS: Final = 16
"""How many settled ids of a partition, and of the topic, are known. An older one that is told again, later
than ``late`` after, is taken for another sighting of the state."""


class Kind(IntEnum):
    """What a sighting says. Those that say "online" come in the order of their names, which breaks ties."""

    ONLINE = 0
    STARTED = 1
    """An observer started and saw the topic: partitions that it didn't find offline are online."""
    DELETED = 2
    RECREATED = 3
    OFFLINE = 4
    FOUND_OFFLINE = 5
    """An observer started and saw the partition offline."""


NAMES: Final = {
    Kind.ONLINE: "partition.online",
    Kind.STARTED: "topic.created",
    Kind.DELETED: "topic.deleted",
    Kind.RECREATED: "topic.recreated",
    Kind.OFFLINE: "partition.offline",
    Kind.FOUND_OFFLINE: "partition.offline",
}


class Sighting(NamedTuple):
    """What one record tells.

    Attributes:
        partition: None when it is about the whole topic.
        kind: A `Kind`.
        identity: A number that stands for the event's source and id.
        prev_at: When its observer last found it otherwise; None: it never did.
        at: When its observer found it.
    """

    partition: int | None
    kind: int
    identity: int
    prev_at: int | None
    at: int


class Outage(NamedTuple):
    """Began after the first and by the second time, ended after the third and by the fourth."""

    began_after: int | None
    began_by: int
    ended_after: int | None
    ended_by: int | None
    ended_with: str | None


class Seen(NamedTuple):
    """A sighting as it is kept."""

    identity: int
    at: int
    prev_at: int
    kind: int


class Told(NamedTuple):
    """A transition in its place: at the earliest time that any sighting of its id tells. Sorts in time."""

    at: int
    down: bool
    kind: int
    prev_at: int


@define
class Spell:
    """A time in which every sighting of a partition says the same."""

    down: bool
    first: int
    last: int
    after: int
    kind: int


@define
class Standing:
    """What holds after some sightings, as far as it matters for what comes then."""

    spell: Spell
    ended: tuple[int, int] | None = None
    """If the spell is online: after and by when the outage before it began."""


@define
class Settled:
    """What all sightings before ``until`` say of a partition, as far as it still matters."""

    until: int
    standing: Standing
    ids: tuple[int, ...] = ()


def transitions(seen: set[Seen], settled: tuple[int, ...]) -> list[Told]:
    """Return a partition's own transitions in their places, in time."""
    places = places_of(seen)
    return sorted(
        Told(places[identity], kind >= Kind.OFFLINE, kind, prev_at)
        for identity, _, prev_at, kind in seen
        if identity not in settled
    )


def joined(base: Standing | None, told: list[Told]) -> list[Spell]:
    """Return the spell that holds at first, if any, and those that follow on it."""
    spells = [] if base is None else [evolve(base.spell)]
    for at, down, kind, prev_at in told:
        if spells and spells[-1].down == down:
            spells[-1].last = at
        else:
            otherwise = spells[-1].last if spells else NEVER  # the last sighting of the opposite
            spells.append(Spell(down, at, at, otherwise if otherwise < at else NEVER, kind))
        spell = spells[-1]
        # Whoever looked before the first sighting and still found it otherwise narrows the bound.
        if spell.after < prev_at < spell.first:
            spell.after = prev_at
    return spells


def standing_after(base: Standing | None, spells: list[Spell]) -> Standing:
    """Return what holds after spells."""
    last = spells[-1]
    if last.down:
        return Standing(last)
    if len(spells) > 1:
        return Standing(last, (spells[-2].after, spells[-2].first))
    return Standing(last, None if base is None else base.ended)


def outages_of(base: Standing | None, spells: list[Spell]) -> list[Outage]:
    """Return the outages among spells, and the one that the first of them ended."""
    found = []
    if base is not None and base.ended is not None:
        found.append(_outage(*base.ended, spells[0]))
    for number, spell in enumerate(spells):
        if spell.down:
            end = spells[number + 1] if number + 1 < len(spells) else None
            found.append(_outage(spell.after, spell.first, end))
    return found


def places_of(sightings: Iterable[Seen]) -> dict[int, int]:
    """Return for each id the earliest time at which anybody saw it."""
    places: dict[int, int] = {}
    for seen in sightings:
        if seen.at < places.get(seen.identity, seen.at + 1):
            places[seen.identity] = seen.at
    return places


def kept_ids(ids: tuple[int, ...], again: Iterable[int]) -> tuple[int, ...]:
    """Return the latest ids, and those of which sightings are still held: these must not seem new."""
    latest = ids[-_KEPT_IDS:]
    return (*sorted(set(again).difference(latest)), *latest)


def _outage(after: int, by: int, end: Spell | None) -> Outage:
    if end is None:
        return Outage(_moment(after), by, None, None, None)
    return Outage(_moment(after), by, _moment(end.after), end.first, NAMES[Kind(end.kind)])


def _moment(time: int) -> int | None:
    return None if time == NEVER else time
