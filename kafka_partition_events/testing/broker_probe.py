"""Ask one particular broker what it knows.

A client library asks any broker it likes. To wait until a change has reached *every* broker one must ask
each of them, so this speaks the one request that it takes: Metadata version 4, the first that can say "do
not create the topic". No client, no background thread, no log line about a broker that is not up yet.
"""

import socket
import struct
from collections.abc import Iterator

from attrs import frozen

from kafka_partition_events.testing.errors import KitError

_METADATA, _VERSION = 3, 4


class ProbeError(KitError):
    """The broker did not answer: it is down, frozen or still starting."""


@frozen
class ProbedPartition:
    """One partition as one broker sees it; `leader` is -1 when there is none."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@frozen
class BrokerView:
    """The cluster as one broker sees it. A topic that came with an error is left out."""

    brokers: frozenset[int]
    topics: dict[str, dict[int, ProbedPartition]]


def ask_broker(host: str, port: int, *, timeout: float = 5.0) -> BrokerView:
    """Ask the broker at `host`:`port` for all topics; `timeout` seconds for each step.

    Raises:
        ProbeError: there was no usable answer.
    """
    # topics: null for all, allow creation: no
    return _parse(
        Reader(exchange(host, port, _METADATA, struct.pack(">ib", -1, 0), _VERSION, timeout=timeout))
    )


def exchange(
    host: str, port: int, request: int, body: bytes, version: int = 0, *, timeout: float = 5.0
) -> bytes:
    """Make one request on a connection of its own; return the answer, which begins with a correlation id.

    Args:
        host: Of a node.
        port: Of the same.
        request: Kafka's number of the request.
        body: What follows the client id.
        version: Of the request.
        timeout: Seconds for each step.

    Raises:
        ProbeError: there was no answer.
    """
    try:
        with socket.create_connection((host, port), timeout) as connection:
            body = struct.pack(">hhih5s", request, version, 1, 5, b"probe") + body
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", _exactly(stream.read(4), 4))
                return _exactly(stream.read(size), size)
    except OSError as error:
        raise ProbeError(f"{host}:{port}: {error}") from error


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ConnectionError("connection closed in the middle of an answer")
    return data


class Reader:
    """Reads the old ("non-flexible") Kafka encoding: big-endian integers, counted strings and arrays."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        """Read an integer; `code` is that of `struct`."""
        layout = struct.Struct(">" + code)
        (value,) = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return int(value)

    def text(self) -> str:
        """Read a string; null is an empty one."""
        size = max(self.number("h"), 0)  # -1 is null
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def skip(self, size: int) -> None:
        """Go past `size` bytes."""
        self._at += size

    def items(self) -> Iterator[None]:
        """Count the items of an array."""
        for _ in range(self.number("i")):
            yield None

    def numbers(self) -> tuple[int, ...]:
        """Read an array of 32-bit integers."""
        return tuple(self.number("i") for _ in self.items())


def _parse(read: Reader) -> BrokerView:
    read.number("i")  # correlation id: this connection has one request
    read.number("i")  # throttle time
    brokers = set()
    for _ in read.items():
        brokers.add(read.number("i"))
        read.text()  # host
        read.number("i")  # port
        read.text()  # rack
    read.text()  # cluster id
    read.number("i")  # controller
    topics = {}
    for _ in read.items():
        error, name = read.number("h"), read.text()
        read.number("b")  # internal
        partitions = dict(_partition(read) for _ in read.items())
        if not error:
            topics[name] = partitions
    return BrokerView(frozenset(brokers), topics)


def _partition(read: Reader) -> tuple[int, ProbedPartition]:
    read.number("h")  # error: LEADER_NOT_AVAILABLE says no more than the leader -1
    partition, leader = read.number("i"), read.number("i")
    return partition, ProbedPartition(leader, replicas=read.numbers(), isr=read.numbers())
