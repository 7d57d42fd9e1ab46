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
    try:
        with socket.create_connection((host, port), timeout) as connection:
            # api key, version, correlation id, client id | topics: null for all, allow creation: no
            body = struct.pack(">hhih5sib", _METADATA, _VERSION, 1, 5, b"probe", -1, 0)
            connection.sendall(struct.pack(">i", len(body)) + body)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", _exactly(stream.read(4), 4))
                answer = _exactly(stream.read(size), size)
    except OSError as error:
        raise ProbeError(f"{host}:{port}: {error}") from error
    return _parse(_Reader(answer))


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ConnectionError("connection closed in the middle of an answer")
    return data


class _Reader:
    """Reads the old ("non-flexible") Kafka encoding: big-endian integers, counted strings and arrays."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        layout = struct.Struct(">" + code)
        (value,) = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return int(value)

    def text(self) -> str:
        size = max(self.number("h"), 0)  # -1 is null
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def items(self) -> Iterator[None]:
        for _ in range(self.number("i")):
            yield None

    def numbers(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in self.items())


def _parse(read: _Reader) -> BrokerView:
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


def _partition(read: _Reader) -> tuple[int, ProbedPartition]:
    read.number("h")  # error: LEADER_NOT_AVAILABLE says no more than the leader -1
    partition, leader = read.number("i"), read.number("i")
    return partition, ProbedPartition(leader, replicas=read.numbers(), isr=read.numbers())
