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
from typing import Final, NamedTuple

from attrs import define, field

from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.fleet.outage_bytes import SEEN, pack_seen, unpack_seen
from kafka_partition_events.spark.fleet.outage_partition import PartitionState, pack, unpack
from kafka_partition_events.spark.fleet.outage_spells import (
    NAMES,
    NEVER,
    Kind,
    Outage,
    Seen,
    Sighting,
    Told,
    kept_ids,
    places_of,
)

_VERSION: Final = 1
_TOPIC: Final = struct.Struct("<BQqqHII")
"""Version, revision, latest, the topic's last settled; how many ids, sightings, partitions."""
_ENTRY: Final = struct.Struct("<II")  # partition, bytes


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

    seen: set[Seen] = field(factory=set)
    ids: tuple[int, ...] = ()
    """Those that are settled."""
    last: int = NEVER
    """The last settled one: a partition that is not known yet was online then."""

    def told(self) -> list[Told]:
        """Return the transitions that are not settled, and the last one that is."""
        places = places_of(self.seen)
        told = [] if self.last == NEVER else [Told(self.last, False, Kind.STARTED, NEVER)]
        for identity, at, prev_at, kind in self.seen:
            if kind == Kind.STARTED:  # as often as it is told: each time somebody looked
                told.append(Told(at, False, kind, prev_at))
            elif identity not in self.ids:
                told.append(Told(places[identity], False, kind, prev_at))
        return told

    def settle(self, horizon: int) -> None:
        """Forget what is older than the horizon. No partition may need it any more."""
        places = places_of(seen for seen in self.seen if seen.kind != Kind.STARTED)
        old = sorted((at, id_) for id_, at in places.items() if at < horizon and id_ not in self.ids)
        starts = [seen.at for seen in self.seen if seen.kind == Kind.STARTED and seen.at < horizon]
        self.last = max([self.last, *starts, *(at for at, _ in old)])
        self.seen = {seen for seen in self.seen if seen.at >= horizon}
        ids = (*self.ids, *(id_ for _, id_ in old))
        self.ids = kept_ids(ids, {seen.identity for seen in self.seen}.intersection(ids))


@define
class _Topic:
    """All of a state. Partitions stay packed until somebody asks for them."""

    revision: int = 0
    latest: int = NEVER
    wide: _Wide = field(factory=_Wide)
    _packed: dict[int, bytes] = field(factory=dict)
    _open: dict[int, PartitionState] = field(factory=dict)

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
            seen = set[Seen]() if follow else partition.seen
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

    def _settle(self, told: list[Told], late: int) -> None:
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

    def _partition(self, number: int) -> PartitionState:
        partition = self._open.get(number)
        if partition is None:
            packed = self._packed.get(number)
            partition = PartitionState() if packed is None else unpack(packed)
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
        end = place + seen * SEEN.size
        wide.seen = set(unpack_seen(state[place:end]))
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
                self._packed[number] = pack(partition)
        numbers = sorted(self._packed)
        ids, seen = self.wide.ids, self.wide.seen
        counts = len(ids), len(seen), len(numbers)
        return b"".join(
            (
                _TOPIC.pack(_VERSION, self.revision, self.latest, self.wide.last, *counts),
                struct.pack(f"<{len(ids)}q", *ids),
                pack_seen(seen),
                *(_ENTRY.pack(number, len(self._packed[number])) for number in numbers),
                *(self._packed[number] for number in numbers),
            )
        )


def _sorted_out(
    rows: Iterable[Sighting], seen: set[Seen], settled: tuple[int, ...], oldest: int, revision: int
) -> tuple[set[Seen], list[Word]]:
    """Return what is new among some sightings, and the words for those that come too late."""
    fresh: set[Seen] = set()
    words = []
    for partition, kind, identity, prev_at, at in rows:
        one = Seen(identity, at, NEVER if prev_at is None else prev_at, kind)
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
