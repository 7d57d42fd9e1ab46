"""Tells the readers of a rerouted record where it belongs (``keyed="reroute"``).

A keyed record that goes to another partition because its own is offline breaks the order of its key. Who
restores that order, or only wants to know, finds the home partition in a header. The partitioner chooses
before the client puts the record together, so it notes the home in the list of headers that its thread is
about to send.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kafka_partition_events.clients.rescue import Headers
from kafka_partition_events.partitioners.base import Partitioner

HOME_HEADER = "kpe-home-partition"
"""The partition that the record's key belongs to, as decimal text."""


class _Sending(threading.local):
    headers: Headers | None = None


_sending = _Sending()


def reroutes(partitioner: Partitioner) -> bool:
    """Tell whether a partitioner may reroute keyed records; if so, it notes their homes from now on."""
    if partitioner.keying.policy != "reroute":
        return False
    partitioner.keying.note_home = _note_home
    return True


@contextmanager
def noting_homes(headers: Headers) -> Iterator[None]:
    """Add the home's header to this list if this thread's record is rerouted meanwhile."""
    before, _sending.headers = _sending.headers, headers  # a callback may send within a send
    try:
        yield
    finally:
        _sending.headers = before


def _note_home(home: int) -> None:
    if _sending.headers is not None:
        _sending.headers.append((HOME_HEADER, b"%d" % home))
