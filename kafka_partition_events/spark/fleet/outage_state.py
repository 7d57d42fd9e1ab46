"""The outages of one topic's partitions, from sightings in any order: bytes in, bytes and news out. No Spark.

What a state holds
------------------
Sightings come late and unordered, several may tell one transition (they share an id), and each knows other
bounds. So what was seen lately is kept as it was told, and folded anew where news has its place before it;
that is what makes the order of arrival irrelevant. News that follows on all that is held, as most does, is
folded onto what holds now. "Lately" is counted in the topic's own time, from its latest
sighting:

=====================  ==================================================================================
older than ``late``    not taken any more, but given back as late
older than 2 ``late``  *settled*: of a partition that was ever offline, the spell in force is kept (with
                       the outage that it ended, if any) and the last ids; all else is forgotten
=====================  ==================================================================================

A sighting that is taken finds the others of its id, if those were told within ``late`` of it. One of an id
that is settled changes nothing: an observer that starts in a long outage tells its old id once more.

The rules are those of `kafka_partition_events.spark.outages`, which computes the same in another way; a test
holds one against the other. All times are integers, microseconds since 1970 in UTC.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from attrs import define, evolve, field

from kafka_partition_events.spark.errors import SparkJobError

NEVER: Final = -(1 << 63)
"""A time before all others: nobody looked before."""
_FOR_EVER: Final = (1 << 63) - 1

_VERSION: Final = 1
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


class Word(NamedTuple):
    """A row of the log.

    "Of this partition's outages, those that began at ``since`` or later are exactly the ones in my revision":
    one word for each, or one with a null ``began_by`` if there are none. The latest revision holds.

    A sighting that came too late is a word of its own: ``late`` names it, ``began_after`` and ``began_by``
    are its bounds, ``since`` is null.
    """

    partition: int | None
    revision: int
    since: int | None
    began_after: int | None = None
    began_by: int | None = None
    ended_after: int | None = None
    ended_by: int | None = None
    ended_with: str | None = None
    late: str | None = None


class Outage(NamedTuple):
    """Began after the first and by the second time, ended after the third and by the fourth."""

    began_after: int | None
    began_by: int
    ended_after: int | None
    ended_by: int | None
    ended_with: str | None


class _Seen(NamedTuple):
    """A sighting as it is kept."""

    identity: int
    at: int
    prev_at: int
    kind: int


class _Told(NamedTuple):
    """A transition in its place: at the earliest time that any sighting of its id tells. Sorts in time."""

    at: int
    down: bool
    kind: int
    prev_at: int


@define
class _Spell:
    """A time in which every sighting of a partition says the same."""

    down: bool
    first: int
    last: int
    after: int
    kind: int


@define
class _Standing:
    """What holds after some sightings, as far as it matters for what comes then."""

    spell: _Spell
    ended: tuple[int, int] | None = None
    """If the spell is online: after and by when the outage before it began."""


@define
class _Settled:
    """What all sightings before ``until`` say of a partition, as far as it still matters."""

    until: int
    standing: _Standing
    ids: tuple[int, ...] = ()


# -- the state -----------------------------------------------------------------------------------------------


def fold(state: bytes | None, rows: Iterable[Sighting], *, late: int) -> tuple[bytes, list[Word]]:
    """Return the state with these sightings in their places, and what changed by that.

    Takes time in proportion to the sightings, if they follow on what is held; else also to what is held of
    the partitions that they are about (of all partitions, if one is about the whole topic).

    Args:
        state: What the last call returned; None at first.
        rows: Sightings of one topic of one cluster, in any order.
        late: How much older than the topic's latest sighting one may be, in microseconds.

    Raises:
        SparkJobError: the state is of a later version of this library.
    """
    topic = _Topic.of(state)
    words = topic.take(rows, late)
    return topic.packed(), words


@define
class _Wide:
    """Sightings of the whole topic: each says that its partitions are online."""

    seen: set[_Seen] = field(factory=set)
    ids: tuple[int, ...] = ()
    """Those that are settled."""
    last: int = NEVER
    """The last settled one: a partition that is not known yet was online then."""

    def told(self) -> list[_Told]:
        """Return the transitions that are not settled, and the last one that is."""
        places = _places(self.seen)
        told = [] if self.last == NEVER else [_Told(self.last, False, Kind.STARTED, NEVER)]
        for identity, at, prev_at, kind in self.seen:
            if kind == Kind.STARTED:  # as often as it is told: each time somebody looked
                told.append(_Told(at, False, kind, prev_at))
            elif identity not in self.ids:
                told.append(_Told(places[identity], False, kind, prev_at))
        return told

    def settle(self, horizon: int) -> None:
        """Forget what is older than the horizon. No partition may need it any more."""
        places = _places(seen for seen in self.seen if seen.kind != Kind.STARTED)
        old = sorted((at, id_) for id_, at in places.items() if at < horizon and id_ not in self.ids)
        starts = [seen.at for seen in self.seen if seen.kind == Kind.STARTED and seen.at < horizon]
        self.last = max([self.last, *starts, *(at for at, _ in old)])
        self.seen = {seen for seen in self.seen if seen.at >= horizon}
        ids = (*self.ids, *(id_ for _, id_ in old))
        self.ids = _kept(ids, {seen.identity for seen in self.seen}.intersection(ids))


@define
class _Partition:
    """What is kept of a partition. Its sightings stay packed as long as others only follow on them."""

    settled: _Settled | None = None
    now: _Standing | None = None
    """What holds after all its sightings, and the topic's."""
    newest: int = NEVER
    """No sighting and no transition is later."""
    oldest: int = _FOR_EVER
    """When the earliest sighting was that is held."""
    held: bytes = b""

    @property
    def seen(self) -> set[_Seen]:
        """The sightings that are held."""
        return set(_seen_in(self.held))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids that are settled."""
        return () if self.settled is None else self.settled.ids

    def precedes(self, rows: Iterable[Sighting]) -> bool:
        """Tell whether all sightings are later than what is held, and of other ids: most are."""
        ids = self.ids
        return self.now is not None and all(
            row.at > self.newest and row.identity not in ids and _ID.pack(row.identity) not in self.held
            for row in rows
        )

    def follow(self, own: set[_Seen]) -> tuple[list[Outage], list[Outage]]:
        """Add sightings that follow on what is held; return the last outage, and those since."""
        spells = _spells(self.now, _transitions(own, ()))
        before = [] if self.now is None else _outages(self.now, [self.now.spell])
        after = _outages(self.now, spells)
        self.now = _standing(self.now, spells)
        self.newest = max(seen.at for seen in own)
        self.oldest = min(self.oldest, *(seen.at for seen in own))
        self.held += _together(own)
        return before, after

    def place(
        self, own: set[_Seen], seen: set[_Seen], old_of_topic: list[_Told], of_topic: list[_Told]
    ) -> tuple[list[Outage], list[Outage]]:
        """Put sightings in their places; return the outages before and after that.

        Args:
            own: New ones of the partition.
            seen: Those that are held.
            old_of_topic: The transitions of the whole topic until now.
            of_topic: The same with what is new.
        """
        base = None if self.settled is None else self.settled.standing
        before = _outages(base, _spells(base, self._told(seen, old_of_topic)))
        seen = seen | own
        told = self._told(seen, of_topic)
        spells = _spells(base, told)
        self.now = _standing(base, spells) if spells else None
        self.newest = max([self.newest, *(one.at for one in told), *(one.at for one in own)])
        self._hold(seen)
        return before, _outages(base, spells)

    def settle(self, of_topic: list[_Told], horizon: int) -> None:
        """Of what is older than the horizon, keep only what then holds."""
        base = None if self.settled is None else self.settled.standing
        begin = NEVER if self.settled is None else self.settled.until
        if self.oldest >= horizon and not any(begin <= one.at < horizon for one in of_topic):
            return
        seen = self.seen
        spells = _spells(base, [one for one in self._told(seen, of_topic) if one.at < horizon])
        if not spells:
            return
        places = _places(seen)
        new = sorted((at, id_) for id_, at in places.items() if at < horizon and id_ not in self.ids)
        ids = (*self.ids, *(id_ for _, id_ in new))
        self._hold({one for one in seen if one.at >= horizon})
        again = {one.identity for one in self.seen}.intersection(ids)
        self.settled = _Settled(horizon, _standing(base, spells), _kept(ids, again))

    def _hold(self, seen: set[_Seen]) -> None:
        self.held = _together(seen)
        self.oldest = min((one.at for one in seen), default=_FOR_EVER)

    def _told(self, seen: set[_Seen], of_topic: list[_Told]) -> list[_Told]:
        """Return the transitions that are not settled, in time."""
        found_offline = {one.at for one in seen if one.kind == Kind.FOUND_OFFLINE}
        begin = NEVER if self.settled is None else self.settled.until
        told = _transitions(seen, self.ids)
        told += [
            one
            for one in of_topic
            if one.at >= begin and not (one.kind == Kind.STARTED and one.at in found_offline)
        ]
        told.sort()
        return told


def _transitions(seen: set[_Seen], settled: tuple[int, ...]) -> list[_Told]:
    """Return a partition's own transitions in their places, in time."""
    places = _places(seen)
    return sorted(
        _Told(places[identity], kind >= Kind.OFFLINE, kind, prev_at)
        for identity, _, prev_at, kind in seen
        if identity not in settled
    )


def _spells(base: _Standing | None, told: list[_Told]) -> list[_Spell]:
    """Return the spell that holds at first, if any, and those that follow on it."""
    spells = [] if base is None else [evolve(base.spell)]
    for at, down, kind, prev_at in told:
        if spells and spells[-1].down == down:
            spells[-1].last = at
        else:
            otherwise = spells[-1].last if spells else NEVER  # the last sighting of the opposite
            spells.append(_Spell(down, at, at, otherwise if otherwise < at else NEVER, kind))
        spell = spells[-1]
        # Whoever looked before the first sighting and still found it otherwise narrows the bound.
        if spell.after < prev_at < spell.first:
            spell.after = prev_at
    return spells


def _standing(base: _Standing | None, spells: list[_Spell]) -> _Standing:
    """Return what holds after spells."""
    last = spells[-1]
    if last.down:
        return _Standing(last)
    if len(spells) > 1:
        return _Standing(last, (spells[-2].after, spells[-2].first))
    return _Standing(last, None if base is None else base.ended)


def _outages(base: _Standing | None, spells: list[_Spell]) -> list[Outage]:
    """Return the outages among spells, and the one that the first of them ended."""
    found = []
    if base is not None and base.ended is not None:
        found.append(_outage(*base.ended, spells[0]))
    for number, spell in enumerate(spells):
        if spell.down:
            end = spells[number + 1] if number + 1 < len(spells) else None
            found.append(_outage(spell.after, spell.first, end))
    return found


def _places(sightings: Iterable[_Seen]) -> dict[int, int]:
    """Return for each id the earliest time at which anybody saw it."""
    places: dict[int, int] = {}
    for seen in sightings:
        if seen.at < places.get(seen.identity, seen.at + 1):
            places[seen.identity] = seen.at
    return places


def _kept(ids: tuple[int, ...], again: Iterable[int]) -> tuple[int, ...]:
    """Return the latest ids, and those of which sightings are still held: these must not seem new."""
    latest = ids[-_KEPT_IDS:]
    return (*sorted(set(again).difference(latest)), *latest)


def _outage(after: int, by: int, end: _Spell | None) -> Outage:
    if end is None:
        return Outage(_moment(after), by, None, None, None)
    return Outage(_moment(after), by, _moment(end.after), end.first, NAMES[Kind(end.kind)])


def _moment(time: int) -> int | None:
    return None if time == NEVER else time


@define
class _Topic:
    """All of a state. Partitions stay packed until somebody asks for them."""

    revision: int = 0
    latest: int = NEVER
    wide: _Wide = field(factory=_Wide)
    _packed: dict[int, bytes] = field(factory=dict)
    _open: dict[int, _Partition] = field(factory=dict)

    def take(self, rows: Iterable[Sighting], late: int) -> list[Word]:
        """Put sightings in their places; return the words."""
        oldest = self.latest - late
        by_partition: dict[int, list[Sighting]] = {}
        of_all: list[Sighting] = []
        for row in rows:
            if row.partition is None:
                of_all.append(row)
            else:
                by_partition.setdefault(row.partition, []).append(row)
        revision = self.revision + 1
        old_told = self.wide.told()
        fresh, words = _sorted_out(of_all, self.wide.seen, self.wide.ids, oldest, revision)
        self.wide.seen |= fresh
        new_told = self.wide.told() if fresh else old_told
        latest = [seen.at for seen in fresh]
        touched = sorted({*by_partition, *self._packed}) if fresh else sorted(by_partition)
        for number in touched:
            partition, rows_ = self._partition(number), by_partition.get(number, [])
            follow = not fresh and partition.precedes(rows_)
            seen = set[_Seen]() if follow else partition.seen
            own, too_late = _sorted_out(rows_, seen, partition.ids, oldest, revision)
            words += too_late
            latest += [one.at for one in own]
            if own and follow:
                words += _news(number, revision, *partition.follow(own))
            elif own or fresh:
                words += _news(number, revision, *partition.place(own, seen, old_told, new_told))
        self.latest = max([self.latest, *latest])
        if words:
            self.revision = revision
        self._settle(new_told, late)
        return words

    def _settle(self, told: list[_Told], late: int) -> None:
        horizon = self.latest - 2 * late
        whole = any(seen.at < horizon for seen in self.wide.seen)
        if whole:  # no partition may miss what the topic is about to forget
            for number in self._packed:
                self._partition(number)
        for partition in self._open.values():
            # Not each time that something small is old enough: all that is held would be unpacked each time.
            if partition.now is not None and (whole or partition.oldest < horizon - late):
                partition.settle(told, horizon)
        if whole:
            self.wide.settle(horizon)

    def _partition(self, number: int) -> _Partition:
        partition = self._open.get(number)
        if partition is None:
            packed = self._packed.get(number)
            partition = _Partition() if packed is None else _unpacked(packed)
            self._open[number] = partition
        return partition

    # -- as bytes ------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, state: bytes | None) -> "_Topic":
        """Return a state from its bytes."""
        if state is None:
            return cls()
        if state[0] != _VERSION:
            raise SparkJobError(
                f"the checkpoint holds outages in format {state[0]}, and this version reads {_VERSION}: "
                "go on with the version of kafka-partition-events that wrote it, or begin a new checkpoint"
            )
        _, revision, latest, last, ids, seen, partitions = _TOPIC.unpack_from(state)
        place = _TOPIC.size
        wide = _Wide(last=last)
        wide.ids = struct.unpack_from(f"<{ids}q", state, place)
        place += 8 * ids
        end = place + seen * _SEEN.size
        wide.seen = set(_seen_in(state[place:end]))
        place = end + partitions * _ENTRY.size
        packed = {}
        for partition, size in _ENTRY.iter_unpack(state[end:place]):
            packed[partition] = state[place : place + size]
            place += size
        return cls(revision=revision, latest=latest, wide=wide, packed=packed)

    def packed(self) -> bytes:
        """Return the state as bytes; equal states give equal bytes."""
        for number, partition in self._open.items():
            if partition.now is not None:
                self._packed[number] = _packed(partition)
        numbers = sorted(self._packed)
        ids, seen = self.wide.ids, self.wide.seen
        counts = len(ids), len(seen), len(numbers)
        return b"".join(
            (
                _TOPIC.pack(_VERSION, self.revision, self.latest, self.wide.last, *counts),
                struct.pack(f"<{len(ids)}q", *ids),
                _together(seen),
                *(_ENTRY.pack(number, len(self._packed[number])) for number in numbers),
                *(self._packed[number] for number in numbers),
            )
        )


def _sorted_out(
    rows: Iterable[Sighting], seen: set[_Seen], settled: tuple[int, ...], oldest: int, revision: int
) -> tuple[set[_Seen], list[Word]]:
    """Return what is new among some sightings, and the words for those that come too late."""
    fresh: set[_Seen] = set()
    words = []
    for partition, kind, identity, prev_at, at in rows:
        one = _Seen(identity, at, NEVER if prev_at is None else prev_at, kind)
        if one in seen:
            continue
        # An id that is settled has its place before the horizon, whenever it is told: bounds come too late.
        if at < oldest or (prev_at is not None and identity in settled and kind != Kind.STARTED):
            words.append(Word(partition, revision, None, prev_at, at, late=NAMES[Kind(kind)]))
        else:
            fresh.add(one)
    return fresh, words


def _news(number: int, revision: int, before: list[Outage], after: list[Outage]) -> Iterator[Word]:
    same = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        same += 1
    changed = before[same : same + 1] + after[same : same + 1]
    if not changed:
        return
    since = min(outage.began_by for outage in changed)
    for outage in after[same:]:
        yield Word(number, revision, since, *outage)
    if len(after) == same:
        yield Word(number, revision, since)


# -- bytes ---------------------------------------------------------------------------------------------------

_TOPIC: Final = struct.Struct("<BQqqHII")
"""Version, revision, latest, the topic's last settled; how many ids, sightings, partitions."""
_ENTRY: Final = struct.Struct("<II")  # partition, bytes
_PARTITION: Final = struct.Struct("<BHqq")  # flags, how many ids, newest, oldest
_UNTIL: Final = struct.Struct("<q")
_STANDING: Final = struct.Struct("<qqqB")  # the spell's first, last, after, kind
_ENDED: Final = struct.Struct("<qq")
_SEEN: Final = struct.Struct("<qqqB")
_ID: Final = struct.Struct("<q")
_HAS_SETTLED, _SETTLED_ENDED, _NOW_ENDED = 1, 2, 4


def _packed(partition: _Partition) -> bytes:
    settled, now = partition.settled, partition.now
    if now is None:
        raise ValueError("a partition of which nothing is known has no state")
    flags = _NOW_ENDED if now.ended else 0
    parts = [_standing_packed(now)]
    if settled is not None:
        flags |= _HAS_SETTLED | (_SETTLED_ENDED if settled.standing.ended else 0)
        parts += [_UNTIL.pack(settled.until), _standing_packed(settled.standing)]
    ids = partition.ids
    header = _PARTITION.pack(flags, len(ids), partition.newest, partition.oldest)
    return b"".join((header, *parts, struct.pack(f"<{len(ids)}q", *ids), partition.held))


def _standing_packed(standing: _Standing) -> bytes:
    spell = standing.spell
    packed = _STANDING.pack(spell.first, spell.last, spell.after, spell.kind)
    return packed + _ENDED.pack(*standing.ended) if standing.ended else packed


def _unpacked(packed: bytes) -> _Partition:
    flags, count, newest, oldest = _PARTITION.unpack_from(packed)
    now, place = _standing_at(packed, _PARTITION.size, ended=bool(flags & _NOW_ENDED))
    settled = None
    if flags & _HAS_SETTLED:
        (until,) = _UNTIL.unpack_from(packed, place)
        ended = bool(flags & _SETTLED_ENDED)
        standing, place = _standing_at(packed, place + _UNTIL.size, ended=ended)
        settled = _Settled(until, standing, struct.unpack_from(f"<{count}q", packed, place))
        place += count * _ID.size
    return _Partition(settled, now, newest, oldest, packed[place:])


def _standing_at(packed: bytes, place: int, *, ended: bool) -> tuple[_Standing, int]:
    first, last, after, kind = _STANDING.unpack_from(packed, place)
    place += _STANDING.size
    standing = _Standing(_Spell(kind >= Kind.OFFLINE, first, last, after, kind))
    if ended:
        standing.ended = _ENDED.unpack_from(packed, place)
        place += _ENDED.size
    return standing, place


def _together(seen: set[_Seen]) -> bytes:
    pack = _SEEN.pack
    return b"".join([pack(*one) for one in sorted(seen)])


def _seen_in(packed: bytes) -> Iterator[_Seen]:
    return map(_Seen._make, _SEEN.iter_unpack(packed))
