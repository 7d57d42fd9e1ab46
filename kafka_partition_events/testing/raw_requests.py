"""What confluent-kafka's admin client can't do: who is the active controller, quotas, elections.

(It has `elect_leaders`, which fails in 2.16.1 before it asks anybody.) Each is one request on a connection of
its own, as in `broker_probe.py`.
"""

import struct
from collections.abc import Collection

from kafka_partition_events.testing.broker_probe import Reader, exchange
from kafka_partition_events.testing.errors import KitError

_ELECT_LEADERS, _ALTER_CLIENT_QUOTAS, _DESCRIBE_QUORUM = 43, 49, 55
_ELECTION_NOT_NEEDED = 84
_LIMIT_S = 30.0
_QUORUM_TOPIC = b"__cluster_metadata"


def leads_quorum(host: str, port: int) -> bool:
    """Ask the controller at `host`:`port` whether it is the active one (DescribeQuorum version 0).

    Raises:
        ProbeError: there was no usable answer.
    """
    # Compact arrays and strings have their size plus one in a byte; 0 ends a list of tagged fields.
    topics = struct.pack(">bb18sbib", 2, len(_QUORUM_TOPIC) + 1, _QUORUM_TOPIC, 2, 0, 0) + b"\0"
    read = Reader(exchange(host, port, _DESCRIBE_QUORUM, b"\0" + topics + b"\0"))  # first the header's tags
    read.number("i")  # correlation id
    read.number("b")  # no tags
    if read.number("h") != 0:
        return False
    read.number("b")  # one topic
    read.skip(read.number("b") - 1)
    read.number("b")  # one partition
    read.number("i")
    return read.number("h") == 0  # else: not the leader


def alter_client_quota(host: str, port: int, client_id: str, quota: str, value: float | None) -> None:
    """Set a quota of a client id; None removes it (AlterClientQuotas version 0).

    Raises:
        ProbeError: there was no usable answer.
        KitError: Kafka refused.
    """
    one = struct.pack(">i", 1)
    entity = one + _text("client-id") + _text(client_id)
    operation = one + _text(quota) + struct.pack(">db", value or 0.0, value is None)
    validate_only = b"\0"
    read = Reader(exchange(host, port, _ALTER_CLIENT_QUOTAS, one + entity + operation + validate_only))
    read.number("i")  # correlation id
    read.number("i")  # throttle time
    read.number("i")  # one entry
    error, message = read.number("h"), read.text()
    if error:
        raise KitError(f"could not set quotas: {message or f'error {error}'}")


def elect_leaders(host: str, port: int, topic: str, partitions: Collection[int], *, unclean: bool) -> None:
    """Have leaders elected: the first replica of each partition, or, if `unclean`, whoever is there.

    This is ElectLeaders version 1.

    Raises:
        ProbeError: there was no usable answer.
        KitError: Kafka refused, for a reason other than that there is no need.
    """
    wanted = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    timeout_ms = struct.pack(">i", int(_LIMIT_S * 1e3))
    body = struct.pack(">bi", unclean, 1) + _text(topic) + wanted + timeout_ms
    read = Reader(exchange(host, port, _ELECT_LEADERS, body, 1, timeout=_LIMIT_S + 5.0))
    read.number("i")  # correlation id
    read.number("i")  # throttle time
    errors = [(read.number("h"), "")]
    for _ in read.items():
        read.text()  # topic
        for _ in read.items():
            read.number("i")  # partition
            errors.append((read.number("h"), read.text()))
    for error, message in errors:
        if error not in {0, _ELECTION_NOT_NEEDED}:
            raise KitError(f"could not elect leaders of topic {topic}: {message or f'error {error}'}")


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw
