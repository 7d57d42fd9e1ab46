"""What `KeyOrder` knows of a topic's keys: those with records outstanding, away from home, or held."""

from collections import deque
from typing import Any

from attrs import define, field

from kafka_partition_events.clients.flight.key_log import NOTHING, UNKNOWN, KeyLog, as_bytes
from kafka_partition_events.clients.flight.key_moves import Place


@define(eq=False)
class KeyState:
    """A key with outstanding records, all in one place, or one that is away from home."""

    home: int  # its partition by its hash
    place: Place  # where its records go
    after: dict[int, int] = field(factory=dict)  # offsets that these name until one is acknowledged here
    last: int = NOTHING  # the last offset that was acknowledged here; or `UNKNOWN`
    outstanding: int = 0


@define(eq=False)
class HeldRecords:
    """Records of one key that wait."""

    records: deque[Any] = field(factory=deque)  # oldest first; what they are `KeyedRecords` knows
    released_at: int | None = None  # of how many reports, if a thread just hands over the first one
    released_by: int = 0  # that thread


@define(eq=False)
class TopicKeys:
    """What is known of one topic's keys."""

    log: KeyLog  # of those that went home by the first handle
    keys: dict[bytes, KeyState] = field(factory=dict)  # that are counted
    held: dict[bytes, HeldRecords] = field(factory=dict)
    displaced: int = 0  # how many keys are away from home
    moved: int = 0  # how often a key has left it
    # Partition and offset of the last record of keys where that went home by a further handle:
    delivered: dict[bytes, tuple[int, int]] = field(factory=dict)
    floor: dict[int, int] = field(factory=dict)  # the highest offset that was dropped from ``delivered``

    def counts(self, key: Any) -> bool:
        """Return whether a key's next record must be placed."""
        return bool(self.keys or self.held) and ((data := as_bytes(key)) in self.keys or data in self.held)

    def keep_delivered(self, key: bytes, home: int, offset: int, room: int) -> None:
        """Remember the last offset of a key, of so many keys at the most."""
        self.delivered.pop(key, None)
        self.delivered[key] = home, offset
        if len(self.delivered) > room:
            oldest = next(iter(self.delivered))
            home, offset = self.delivered.pop(oldest)
            if offset == UNKNOWN:  # rare, and stays: as a floor it would keep all keys of the partition there
                self.delivered[oldest] = home, offset
            else:
                self.floor[home] = max(offset, self.floor.get(home, NOTHING))

    def delivered_offset(self, key: bytes, home: int) -> int:
        """Return an offset that is not before the last one that `keep_delivered` was given for this home."""
        if (delivered := self.delivered.get(key)) is None:
            return self.floor.get(home, NOTHING)
        return delivered[1] if delivered[0] == home else NOTHING

    def last(self, key: bytes, state: KeyState | None, home: int, *, recalled: bool = False) -> int:
        """Return an offset that is not before a key's last one where it is, `NOTHING` or `UNKNOWN`."""
        offset = NOTHING
        if state is not None:
            home, offset = state.home, state.last  # which has another home now if its topic has grown
            if state.after or state.place.partition != home:
                return offset
        offset = max(offset, self.delivered_offset(key, home))
        logged = self.log.earlier(key, home, recalled=recalled)
        return UNKNOWN if logged < NOTHING else max(offset, logged)
