"""Ids for changes that sort by when they were made: ULIDs (https://github.com/ulid/spec). Pure."""

from typing import Final

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH: Final = 26
RANDOM_BYTES: Final = 10


def ulid(now_ms: int, randomness: bytes) -> str:
    """Return a ULID: 26 characters of Crockford's base 32, 48 bits of time and then 80 bits of chance.

    Args:
        now_ms: Milliseconds since 1970.
        randomness: `RANDOM_BYTES` bytes that nobody else has.

    Raises:
        ValueError: the time or the randomness has another size.
    """
    if not 0 <= now_ms < 1 << 48 or len(randomness) != RANDOM_BYTES:
        raise ValueError(f"a ULID takes 48 bits of time and {RANDOM_BYTES} bytes of randomness")
    number = now_ms << 80 | int.from_bytes(randomness)
    return "".join(_CROCKFORD[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))
