"""The connections over which metadata is asked for: a producer's, or our own."""

# ruff: noqa: SLF001 - see `private`

import random
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kafka import KafkaProducer, errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.metadata import MetadataRequest

from kafka_partition_events.clients.answers import observation
from kafka_partition_events.clients.kafka_python.private import cluster_of, is_closed
from kafka_partition_events.clients.librdkafka import up_to_date
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.process import OwnProcess

_log = get_logger(__name__)

_ANSWER_BYTES: Final = 100_000_000  # as librdkafka; kafka-python's default is 1 MB: some 20,000 partitions
_LEAST_TRY_S: Final = 0.2
_CAN_FORBID_CREATION_SINCE: Final = 4  # Metadata's version; brokers before 0.11 are better not asked
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
"""Settings that name a file. kafka-python opens it when it connects, and does not say which it misses."""


class Link:
    """Our own connections, with their I/O thread."""

    exclusive = True  # so one that fails need not make the client find other brokers

    def __init__(self, config: Mapping[str, Any]) -> None:
        for name in _FILES:
            if config.get(name) is not None and not Path(config[name]).is_file():
                raise ConfigurationError(f"{name}: there is no file {config[name]}")
        self._config = {"receive_message_max_bytes": _ANSWER_BYTES, **config}
        self._settings = self._config
        self._client: Any = None
        self._process = OwnProcess("connection")
        # Why each broker did not answer: while kafka-python waits to connect again, it does not say why.
        self._complaints: dict[int | str, str] = {}

    def manager(self) -> Any:
        """Return the connection manager, or raise `MetadataFetchError` or `ForkedError`."""
        self._process.check()
        if self._client is None:
            self._settings = up_to_date(self._config)
            self._client = KafkaNetClient(**self._settings)
            self._client._net.start()
        return self._client._manager

    def config(self) -> Mapping[str, Any]:
        """Return how the client connects, as far as it is still there."""
        return self._config

    def wanted(self, topics: frozenset[str] | None) -> frozenset[str] | None:
        """Return what to ask for, given what the poller wants to know."""
        return topics

    def learn(self, response: Any) -> None:
        """Have the client remember the brokers: the bootstrap addresses may go away. Changes the response."""
        response.topics = []
        self._client._manager.cluster.update_metadata(response)

    def failed(self) -> None:
        """Make another client if a password was replaced in its file; certificates are always read again."""
        if up_to_date(self._config) != self._settings:
            self.close()

    def close(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None and not self._process.is_another:
            client.close()

    def ask(self, topics: frozenset[str] | None, started_at: float, timeout: float) -> Observation:
        """Ask for topics (None: all), without creating any; wait so many seconds, and let the client learn.

        Raises `MetadataFetchError`.
        """
        answered, manager, deadline = threading.Event(), self.manager(), time.monotonic() + timeout
        try:
            future = manager.call_soon(self._ask_in_turn, manager, topics, started_at, deadline)
        except (RuntimeError, ReferenceError, errors.KafkaError) as error:
            raise MetadataFetchError(f"the client is closed: {error}") from error
        future.add_both(lambda _result: answered.set())
        if not answered.wait(timeout):
            raise MetadataFetchError(f"no answer within {timeout:.3g} s")
        if isinstance(future.exception, MetadataFetchError):
            raise future.exception
        if future.exception is not None:
            raise MetadataFetchError(f"could not ask: {future.exception!r}") from future.exception
        answer: Observation = future.value
        return answer

    async def _ask_in_turn(
        self,
        manager: Any,
        topics: frozenset[str] | None,
        started_at: float,
        deadline: float,
    ) -> Observation:
        """Try one broker after the other, each with half of the time that is left: one may be frozen."""
        candidates, complaints = _candidates(manager), self._complaints
        for node_id in candidates:
            if (left := deadline - time.monotonic()) <= 0:
                break
            connection: Any = None
            is_new = False
            try:
                connection = manager.get_connection(node_id, refresh_metadata_on_err=not self.exclusive)
                is_new = not connection.connected
                asked = connection.send_request(_request(topics))
                response = await manager.wait_for(asked, 1000 * min(left, max(left / 2, _LEAST_TRY_S)))
            except errors.NodeNotReadyError as error:  # it failed a moment ago, or is busy
                complaints.setdefault(node_id, str(error))
            except (errors.KafkaError, OSError) as error:  # OSError: a file of keys or certificates
                complaints[node_id] = f"{error}{_explanation(error, connection, manager) if is_new else ''}"
            else:
                complaints.clear()
                answer = observation(response, node_id, topics, started_at, errors.for_code)
                self.learn(response)
                return answer
        reasons = "; ".join(f"{node}: {complaints[node]}" for node in candidates if node in complaints)
        raise MetadataFetchError(f"no broker answers ({reasons or 'none is known'})")


class ProducerLink(Link):
    """A producer's own connections and metadata. The producer is not kept alive, and left alone."""

    exclusive = False

    def __init__(self, producer: KafkaProducer) -> None:
        super().__init__({})
        self._producer = weakref.ref(producer)
        self._cluster = cluster_of(producer)
        self._process = OwnProcess(type(producer).__name__)

    def manager(self) -> Any:
        """Return the producer's own."""
        self._process.check()
        producer = self._producer()
        if producer is None or is_closed(producer):
            raise MetadataFetchError("the producer of this metadata source is closed")
        return self._cluster._manager

    def config(self) -> Mapping[str, Any]:
        """Return the producer's settings."""
        producer = self._producer()
        return {} if producer is None else producer.config

    def wanted(self, topics: frozenset[str] | None) -> frozenset[str] | None:
        """Add what the producer knows: its metadata is replaced as a whole by what it learns."""
        return None if topics is None else topics | self._cluster.topics(exclude_internal_topics=False)

    def learn(self, response: Any) -> None:
        """Give the producer the very response that we read, if it lacks partitions of a topic it knows.

        Asking it to refresh its metadata would be simpler, but its own request creates topics that are gone.
        For the same reason topics with an error are left out: kafka-python would at once ask for them again.
        They come back when the producer needs them.
        """
        counts = {t.name: len(t.partitions) for t in response.topics if not t.error_code}
        if not self._lacking(counts):
            return
        known = self._cluster.topics(exclude_internal_topics=False)
        response.topics = [t for t in response.topics if not t.error_code and t.name in known]
        try:
            self._cluster.update_metadata(response)
        except Exception as error:  # noqa: BLE001 - a listener of the user's; the update itself is done by then
            _log.warning("kafka_python_metadata_listener_failed", error=repr(error))
        if lacking := self._lacking(counts):
            raise MetadataFetchError(f"the producer did not learn of new partitions of {', '.join(lacking)}")

    def _lacking(self, counts: Mapping[str, int]) -> list[str]:
        """Return the topics that the producer knows, but with fewer partitions."""
        known = {name: self._cluster.partitions_for_topic(name) for name in counts}
        return [name for name, ids in known.items() if ids is not None and len(ids) < counts[name]]


def _explanation(error: Exception, connection: Any, manager: Any) -> str:
    """Return what it means that a new connection was closed before it was of any use.

    A broker that refuses a login answers why, and hangs up. kafka-python drops what it receives together with
    the end of a connection, and says "socket disconnected".
    """
    is_known = isinstance(error, errors.KafkaConnectionError | errors.InvalidReceiveError)
    if not is_known or connection.parser is None:  # not reached by TCP, and TLS if that is asked for
        return ""
    if connection.sasl_enabled and connection.broker_version_data is not None:
        return " during the login: the broker refuses the user name, the password or the SASL mechanism"
    if "alert" in (said := str(error).lower()) and "certificate" in said:
        return ": the broker wants a client certificate, or does not take this one"
    if manager.cluster.brokers():  # it worked before
        return ""
    return ": does security_protocol fit the broker's listener? With TLS: does it want a client certificate?"


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
        min_version=_CAN_FORBID_CREATION_SINCE,
    )
