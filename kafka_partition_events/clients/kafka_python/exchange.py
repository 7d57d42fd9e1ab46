"""One question to the cluster over a kafka-python connection manager.

What this relies on, all of it in kafka-python 3.0: ``kafka.net``'s ``KafkaConnectionManager`` with
``call_soon`` (thread-safe: runs a coroutine on the client's I/O thread), ``get_connection``, ``wait_for``,
``least_loaded_node`` and ``cluster``; ``KafkaConnection`` with ``send_request`` and, to explain a failure,
``connected``, ``parser``, ``sasl_enabled`` and ``broker_version_data``; ``MetadataRequest``.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kafka import errors
from kafka.protocol.metadata import MetadataRequest

from kafka_partition_events.errors import MetadataFetchError

_LEAST_TRY_S = 0.2
_CAN_FORBID_CREATION_SINCE = 4

_Taken = TypeVar("_Taken")


def ask(
    manager: Any,
    topics: frozenset[str] | None,
    timeout: float,
    *,
    exclusive: bool,
    complaints: dict[int | str, str],
    take: Callable[[Any, int | str], _Taken],
) -> _Taken:
    """Ask for topics, without creating any, and wait for the answer.

    Args:
        manager: The connection manager. Another thread must be running its loop.
        topics: The topics; None asks for all.
        timeout: Seconds to wait.
        exclusive: Whether the manager is ours alone, so that a failed connection need not make it look for
            other brokers.
        complaints: Keeps why each broker did not answer: while kafka-python waits to connect again, it does
            not tell. Give the same dictionary each time.
        take: Called with the response and who gave it, on the manager's I/O thread.

    Returns:
        What ``take`` has returned.

    Raises:
        MetadataFetchError: nobody answered in time.
    """
    answered = threading.Event()
    try:
        future = manager.call_soon(
            _ask_in_turn, manager, topics, time.monotonic() + timeout, exclusive, complaints, take
        )
    except (RuntimeError, ReferenceError, errors.KafkaError) as error:
        raise MetadataFetchError(f"the client is closed: {error}") from error
    future.add_both(lambda _result: answered.set())
    if not answered.wait(timeout):
        raise MetadataFetchError(f"no answer within {timeout:.3g} s")
    if future.exception is not None:
        if isinstance(future.exception, MetadataFetchError):
            raise future.exception
        raise MetadataFetchError(f"could not ask: {future.exception!r}") from future.exception
    taken: _Taken = future.value
    return taken


async def _ask_in_turn(
    manager: Any,
    topics: frozenset[str] | None,
    deadline: float,
    exclusive: bool,
    complaints: dict[int | str, str],
    take: Callable[[Any, int | str], _Taken],
) -> _Taken:
    """Try one broker after the other, each with half of the time that is left: one may be frozen."""
    candidates = _candidates(manager)
    for node_id in candidates:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        connection: Any = None
        reply: Any = None
        fresh = False
        try:
            connection = manager.get_connection(node_id, refresh_metadata_on_err=not exclusive)
            fresh = not connection.connected
            reply = connection.send_request(_request(topics))
            response = await manager.wait_for(reply, 1000 * min(left, max(left / 2, _LEAST_TRY_S)))
        except errors.NodeNotReadyError as error:  # it failed a moment ago, or is busy
            complaints.setdefault(node_id, str(error))
            continue
        except (errors.KafkaError, OSError) as error:  # OSError: a file of keys or certificates
            if reply is not None:
                reply.add_callback(_let_go)  # it may still come
            explanation = _explanation(error, connection, manager) if fresh else ""
            complaints[node_id] = f"{error}{explanation}"
            continue
        complaints.clear()
        return take(response, node_id)
    reasons = "; ".join(
        f"{node_id}: {complaints[node_id]}" for node_id in candidates if node_id in complaints
    )
    raise MetadataFetchError(f"no broker answers ({reasons or 'none is known'})")


def _let_go(response: Any) -> None:
    """Drop what an answer holds that came too late.

    The future that has it, the error and its traceback refer to each other, so it would stay until a full
    garbage collection: 75 MB for 200,000 partitions, and `kpe observe` collects rarely.
    """
    response.topics = []


def _explanation(error: Exception, connection: Any, manager: Any) -> str:
    """Return what it means that a new connection was closed before it was of any use.

    A broker that refuses a login answers why, and hangs up. kafka-python drops what it receives together with
    the end of a connection, and says "socket disconnected".
    """
    reached = connection.parser is not None  # by TCP, and TLS if that is asked for
    if not reached or not isinstance(error, errors.KafkaConnectionError | errors.InvalidReceiveError):
        return ""
    if connection.sasl_enabled and connection.broker_version_data is not None:
        return " during the login: the broker refuses the user name, the password or the SASL mechanism"
    if "alert" in (said := str(error).lower()) and "certificate" in said:
        return ": the broker wants a client certificate, or does not take this one"
    worked_before = manager.cluster.brokers()
    hint = ": does security_protocol fit the broker's listener? With TLS: does it want a client certificate?"
    return "" if worked_before else hint


def _candidates(manager: Any) -> list[int | str]:
    """Return every known broker, the one with a free connection first, then the bootstrap addresses."""
    first = manager.least_loaded_node()
    others = [node.node_id for node in manager.cluster.brokers() if node.node_id != first]
    random.shuffle(others)
    bootstrap = [node.node_id for node in manager.cluster.bootstrap_brokers()]
    return [*([] if first is None else [first]), *others, *bootstrap]


def _request(topics: frozenset[str] | None) -> Any:
    wanted = MetadataRequest.ALL_TOPICS
    if topics is not None:
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
    return MetadataRequest(
        topics=wanted,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        # Brokers before 0.11 cannot be told not to create; rather fail than ask them.
        min_version=_CAN_FORBID_CREATION_SINCE,
    )
