"""What a record says of its key's earlier ones in other partitions: the header ``kpe-after``. Pure.

A record whose key was in another partition before names an offset there that is not before the key's last
acknowledged record. Who has processed the named partitions up to these offsets may process the record, and
has each key in its order.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

AFTER_HEADER: Final = "kpe-after"
"""``PARTITION:OFFSET``, or several of them with commas between: the record comes after all of them."""

_ONE = re.compile(rb"(\d{1,10}):(\d{1,19})")
_MOST_PARTITION, _MOST_OFFSET = 2**31 - 1, 2**63 - 1


def format_after(after: Mapping[int, int]) -> bytes:
    """Return the header's value for offsets by partition."""
    return b",".join(b"%d:%d" % place for place in sorted(after.items()))


def parse_after(headers: Iterable[tuple[str, object]] | None) -> dict[int, int]:
    """Return the offsets by partition that a record comes after; the highest where one is named twice.

    A value that is no such list names nothing: any application may write headers.
    """
    after: dict[int, int] = {}
    for name, value in headers or ():
        if name != AFTER_HEADER or not isinstance(value, bytes):
            continue
        found = [_ONE.fullmatch(part) for part in value.split(b",")]
        if not all(found):
            continue
        for match in found:
            partition, offset = (int(match[1]), int(match[2])) if match else (-1, -1)
            if partition <= _MOST_PARTITION and offset <= _MOST_OFFSET:
                after[partition] = max(offset, after.get(partition, -1))
    return after
