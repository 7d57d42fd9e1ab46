"""Whether each key's records were handed out in the order in which they were sent. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attrs import frozen

from kafka_partition_events.demo.tape import DELIVERED, Taped


class Handed(NamedTuple):
    """A record that a reader was handed: its number, and whether it says what it comes after."""

    key: bytes
    number: int
    moved: bool


@frozen(kw_only=True)
class ReadOrder:
    """What a reader was handed, key by key.

    Attributes:
        records, keys: How many.
        moved: How many records had left the partition of their key's last one.
        out_of_order: How many came after a later one of their key. There must be none.
        twice: How many came again. There must be none.
        unread: How many were delivered, say the callbacks, and never came. There must be none.
    """

    records: int
    keys: int
    moved: int
    out_of_order: int
    twice: int
    unread: int

    @classmethod
    def of(cls, handed: Iterable[Handed], rows: Sequence[Taped]) -> "ReadOrder":
        """Go through what was handed out.

        Args:
            handed: Records with a key, in the order in which they came.
            rows: All records of the producer, by number; from the first one with a key on, all have one.
        """
        latest: dict[bytes, int] = {}
        seen: set[int] = set()
        records = moved = out_of_order = twice = 0
        for each in handed:
            records += 1
            moved += each.moved
            if each.number in seen:
                twice += 1
                continue
            seen.add(each.number)
            out_of_order += each.number < latest.get(each.key, -1)
            latest[each.key] = max(each.number, latest.get(each.key, -1))
        first = min(seen, default=len(rows))
        delivered = {
            number for number, row in enumerate(rows) if row.outcome == DELIVERED and number >= first
        }
        return cls(
            records=records,
            keys=len(latest),
            moved=moved,
            out_of_order=out_of_order,
            twice=twice,
            unread=len(delivered - seen),
        )

    @property
    def holds(self) -> bool:
        """Whether every record came, once, and after the earlier ones of its key."""
        return self.records > 0 and not (self.out_of_order or self.twice or self.unread)

    @property
    def in_words(self) -> str:
        """The proof, in a sentence."""
        unread = f", {self.unread:,} NEVER READ" if self.unread else ""
        return (
            f"{self.records:,} records of {self.keys:,} keys read, {self.moved:,} of which had moved; "
            f"{self.out_of_order:,} out of order, {self.twice:,} twice{unread}"
        )
