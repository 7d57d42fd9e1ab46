"""Sightings and what holds after them, as bytes."""

import struct
from collections.abc import Iterator
from typing import Final

from kafka_partition_events.spark.fleet.outage_spells import Kind, Seen, Spell, Standing

ID: Final = struct.Struct("<q")
SEEN: Final = struct.Struct("<qqqB")
_STANDING: Final = struct.Struct("<qqqB")  # the spell's first, last, after, kind
_ENDED: Final = struct.Struct("<qq")


def pack_standing(standing: Standing) -> bytes:
    """Return it as bytes, which are longer if it ended an outage."""
    spell = standing.spell
    packed = _STANDING.pack(spell.first, spell.last, spell.after, spell.kind)
    return packed + _ENDED.pack(*standing.ended) if standing.ended else packed


def unpack_standing(packed: bytes, place: int, *, ended: bool) -> tuple[Standing, int]:
    """Return what was packed at this place, and the place after it."""
    first, last, after, kind = _STANDING.unpack_from(packed, place)
    place += _STANDING.size
    standing = Standing(Spell(kind >= Kind.OFFLINE, first, last, after, kind))
    if ended:
        standing.ended = _ENDED.unpack_from(packed, place)
        place += _ENDED.size
    return standing, place


def pack_seen(seen: set[Seen]) -> bytes:
    """Return sightings as bytes; equal sets give equal bytes."""
    pack = SEEN.pack
    return b"".join([pack(*one) for one in sorted(seen)])


def unpack_seen(packed: bytes) -> Iterator[Seen]:
    """Return the sightings that were packed."""
    return map(Seen._make, SEEN.iter_unpack(packed))
