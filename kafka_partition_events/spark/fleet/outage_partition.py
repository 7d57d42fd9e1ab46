"""What the state holds of one partition: in its place what was seen lately, settled what is older."""

import struct
from collections.abc import Iterable
from typing import Final

from attrs import define

from kafka_partition_events.spark.fleet.outage_bytes import (
    ID,
    pack_seen,
    pack_standing,
    unpack_seen,
    unpack_standing,
)
from kafka_partition_events.spark.fleet.outage_spells import (
    NEVER,
    Kind,
    Outage,
    Seen,
    Settled,
    Sighting,
    Standing,
    Told,
    joined,
    kept_ids,
    outages_of,
    places_of,
    standing_after,
    transitions,
)

_FOR_EVER: Final = (1 << 63) - 1
_PARTITION: Final = struct.Struct("<BHqq")  # flags, how many ids, newest, oldest
_UNTIL: Final = struct.Struct("<q")
_HAS_SETTLED, _SETTLED_ENDED, _NOW_ENDED = 1, 2, 4


@define
class PartitionState:
    """What is kept of a partition. Its sightings stay packed as long as others only follow on them."""

    settled: Settled | None = None
    now: Standing | None = None
    """What holds after all its sightings, and the topic's."""
    newest: int = NEVER
    """No sighting and no transition is later."""
    oldest: int = _FOR_EVER
    """When the earliest sighting was that is held."""
    held: bytes = b""

    @property
    def seen(self) -> set[Seen]:
        """The sightings that are held."""
        return set(unpack_seen(self.held))

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids that are settled."""
        return () if self.settled is None else self.settled.ids

    def precedes(self, rows: Iterable[Sighting]) -> bool:
        """Tell whether all sightings are later than what is held, and of other ids: most are."""
        ids = self.ids
        return self.now is not None and all(
            row.at > self.newest and row.identity not in ids and ID.pack(row.identity) not in self.held
            for row in rows
        )

    def follow(self, own: set[Seen]) -> tuple[list[Outage], list[Outage]]:
        """Add sightings that follow on what is held; return the last outage, and those since."""
        spells = joined(self.now, transitions(own, ()))
        before = [] if self.now is None else outages_of(self.now, [self.now.spell])
        after = outages_of(self.now, spells)
        self.now = standing_after(self.now, spells)
        self.newest = max(seen.at for seen in own)
        self.oldest = min(self.oldest, *(seen.at for seen in own))
        self.held += pack_seen(own)
        return before, after

    def place(
        self, own: set[Seen], seen: set[Seen], old_of_topic: list[Told], of_topic: list[Told]
    ) -> tuple[list[Outage], list[Outage]]:
        """Put sightings in their places; return the outages before and after that.

        Args:
            own: New ones of the partition.
            seen: Those that are held.
            old_of_topic: The transitions of the whole topic until now.
            of_topic: The same with what is new.
        """
        base = None if self.settled is None else self.settled.standing
        before = outages_of(base, joined(base, self._told(seen, old_of_topic)))
        seen = seen | own
        told = self._told(seen, of_topic)
        spells = joined(base, told)
        self.now = standing_after(base, spells) if spells else None
        self.newest = max([self.newest, *(one.at for one in told), *(one.at for one in own)])
        self._hold(seen)
        return before, outages_of(base, spells)

    def settle(self, of_topic: list[Told], horizon: int) -> None:
        """Of what is older than the horizon, keep only what then holds."""
        base = None if self.settled is None else self.settled.standing
        begin = NEVER if self.settled is None else self.settled.until
        if self.oldest >= horizon and not any(begin <= one.at < horizon for one in of_topic):
            return
        seen = self.seen
        spells = joined(base, [one for one in self._told(seen, of_topic) if one.at < horizon])
        if not spells:
            return
        places = places_of(seen)
        new = sorted((at, id_) for id_, at in places.items() if at < horizon and id_ not in self.ids)
        ids = (*self.ids, *(id_ for _, id_ in new))
        self._hold({one for one in seen if one.at >= horizon})
        again = {one.identity for one in self.seen}.intersection(ids)
        self.settled = Settled(horizon, standing_after(base, spells), kept_ids(ids, again))

    def _hold(self, seen: set[Seen]) -> None:
        self.held = pack_seen(seen)
        self.oldest = min((one.at for one in seen), default=_FOR_EVER)

    def _told(self, seen: set[Seen], of_topic: list[Told]) -> list[Told]:
        """Return the transitions that are not settled, in time."""
        found_offline = {one.at for one in seen if one.kind == Kind.FOUND_OFFLINE}
        begin = NEVER if self.settled is None else self.settled.until
        told = transitions(seen, self.ids)
        told += [
            one
            for one in of_topic
            if one.at >= begin and not (one.kind == Kind.STARTED and one.at in found_offline)
        ]
        told.sort()
        return told


def pack(partition: PartitionState) -> bytes:
    """Return it as bytes.

    Raises:
        ValueError: nothing is known of it yet.
    """
    settled, now = partition.settled, partition.now
    if now is None:
        raise ValueError("a partition of which nothing is known has no state")
    flags = _NOW_ENDED if now.ended else 0
    parts = [pack_standing(now)]
    if settled is not None:
        flags |= _HAS_SETTLED | (_SETTLED_ENDED if settled.standing.ended else 0)
        parts += [_UNTIL.pack(settled.until), pack_standing(settled.standing)]
    ids = partition.ids
    header = _PARTITION.pack(flags, len(ids), partition.newest, partition.oldest)
    return b"".join((header, *parts, struct.pack(f"<{len(ids)}q", *ids), partition.held))


def unpack(packed: bytes) -> PartitionState:
    """Return what was packed."""
    flags, count, newest, oldest = _PARTITION.unpack_from(packed)
    now, place = unpack_standing(packed, _PARTITION.size, ended=bool(flags & _NOW_ENDED))
    settled = None
    if flags & _HAS_SETTLED:
        (until,) = _UNTIL.unpack_from(packed, place)
        ended = bool(flags & _SETTLED_ENDED)
        standing, place = unpack_standing(packed, place + _UNTIL.size, ended=ended)
        settled = Settled(until, standing, struct.unpack_from(f"<{count}q", packed, place))
        place += count * ID.size
    return PartitionState(settled, now, newest, oldest, packed[place:])
