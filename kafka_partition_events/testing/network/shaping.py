"""What a disturbed link does to the bytes on it; `proxy.py` does it. Pure: the clock is passed in.

All connections of a link share its bandwidth: a way sends its bytes as fast as that allows, one after the
other, and then they travel for the delay. Order is kept, as TCP keeps it: what is late delays what follows.

A way holds back at most `_DELAYED_MAX` bytes a connection while it delays, else `_HELD_MAX`; beyond that
nothing more is read, and the sender feels it.
"""

import random
import struct

NEVER = float("inf")

_CHUNK = 262_144  # what the proxy reads at a time
_HEADER_MAX = 1_024
_HELD_MAX = 131_072
_DELAYED_MAX = 4_194_304
_SLICE_S = 0.01  # a slow way is fed in pieces that take this long,
_AHEAD_S = 0.05  # and has at most this much before it


class LinkDirection:
    """One direction of a link: when will what is sent now arrive?"""

    def __init__(self, rng: random.Random) -> None:
        self.delay_s = self.jitter_s = 0.0
        self.bytes_per_s: float | None = None
        self.lost = False
        self.free_at = 0.0  # when all that was sent is through the bandwidth
        self._rng = rng

    def send(self, now: float, size: int) -> tuple[float, float]:
        """Send `size` bytes now; return when they are through the bandwidth, and their part of the jitter."""
        if self.bytes_per_s is not None:
            now = self.free_at = max(now, self.free_at) + size / self.bytes_per_s
        return now, self._rng.random()

    def arrival(self, sent: float, part: float) -> float:
        """Return when something arrives."""
        return sent + self.delay_s + part * self.jitter_s

    def full_until(self, now: float) -> float:
        """Return when the next piece may be read; not after `now` if it may be at once."""
        return now if self.bytes_per_s is None else self.free_at - _AHEAD_S

    @property
    def piece(self) -> int:
        """How many bytes go at a time."""
        if self.bytes_per_s is None:
            return _CHUNK
        return max(64, min(_CHUNK, int(self.bytes_per_s * _SLICE_S)))

    @property
    def room(self) -> int:
        """How many bytes of one connection may be under way."""
        return _DELAYED_MAX if self.delay_s or self.jitter_s else _HELD_MAX

    def change(self, bytes_per_s: float | None, delay_s: float, jitter_s: float) -> None:
        """Take new values. Who still waits for the bandwidth there was does not wait any longer."""
        if bytes_per_s != self.bytes_per_s:
            self.free_at = 0.0
        self.bytes_per_s, self.delay_s, self.jitter_s = bytes_per_s, delay_s, jitter_s


def client_id(request: bytes) -> str | None:
    """Return the client id of a connection's first request, None while it is not there yet."""
    start = 14  # size, api key, version, correlation id, and the length of what follows; in every version
    if len(request) < start:
        return None
    (size,) = struct.unpack_from(">h", request, start - 2)
    if not 0 <= size <= _HEADER_MAX:
        return ""
    return request[start : start + size].decode(errors="replace") if len(request) >= start + size else None


def caller_of(name: str) -> str:
    """Return which broker bears a client id like ``broker-2-fetcher-0``, an empty text if none does."""
    kind, _, rest = name.partition("-")
    return rest.partition("-")[0] if kind == "broker" else ""
