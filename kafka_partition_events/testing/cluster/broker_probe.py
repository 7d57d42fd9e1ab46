"""Ask one particular broker what it knows.

A client library asks any broker it likes. To wait until a change has reached *every* broker one must ask
each of them. So this makes a request on a connection of its own, in kafka-python's encoding: no client, no
background thread, no log line about a broker that is not up yet.
"""

import socket
from typing import Any

from attrs import frozen
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kafka_partition_events.testing.errors import KitError

_CREATES_NO_TOPIC = 4
"""The first version of Metadata that can say so."""


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
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = exchange(host, port, request, MetadataResponse, _CREATES_NO_TOPIC, timeout=timeout)
    return BrokerView(
        frozenset(broker.node_id for broker in answer.brokers),
        {
            topic.name: {
                p.partition_index: ProbedPartition(p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes))
                for p in topic.partitions
            }
            for topic in answer.topics
            if not topic.error_code
        },
    )


def exchange(host: str, port: int, request: Any, response: Any, version: int, *, timeout: float = 5.0) -> Any:
    """Make one request on a connection of its own; return the answer.

    Args:
        host: Of a node.
        port: Of the same.
        request: One of kafka-python's.
        response: The class of its answer.
        version: Of both.
        timeout: Seconds for each step.

    Raises:
        ProbeError: there was no answer.
    """
    request.with_header(correlation_id=1, client_id="probe")
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(request.encode(version, header=True, framed=True))
            with connection.makefile("rb") as stream:
                size = int.from_bytes(_exactly(stream.read(4), 4))
                return response.decode(_exactly(stream.read(size), size), version, header=True)
    except OSError as error:
        raise ProbeError(f"{host}:{port}: {error}") from error


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ConnectionError("connection closed in the middle of an answer")
    return data
