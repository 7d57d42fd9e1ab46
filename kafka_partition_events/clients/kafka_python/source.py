"""Metadata through kafka-python, by connections of our own."""

# ruff: noqa: SLF001 - see `private`

import random
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from kafka import KafkaProducer, errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_partition_events.clients.answers import NoAnswerError, error_name, first_answer, grown, observation
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, TOPIC, Answer, CleanupPolicies
from kafka_partition_events.clients.kafka_python.private import run
from kafka_partition_events.clients.librdkafka import up_to_date
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.process import OwnProcess

_log = get_logger(__name__)

_ANSWER_BYTES: Final = 100_000_000  # as librdkafka; kafka-python's default is 1 MB: some 20,000 partitions
_TOPIC_IDS_SINCE: Final = 10  # Metadata's version, of Kafka 2.8
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
"""Settings that name a file. kafka-python opens it when it connects, and does not say which it misses."""


class KafkaPythonMetadataSource:
    """Asks a cluster through kafka-python: topic ids, leader epochs, racks. Never creates a topic.

    It has a client of its own, with one I/O thread: on a producer's connections a question would wait behind
    a write that waits for a replica. Made from a producer, it connects as that does, and teaches it new
    partitions before this library knows them: kafka-python stalls records for one that it does not know.

    Not thread-safe; the poller's thread uses it. In a forked child it raises `ForkedError`.
    """

    def __init__(self, producer_or_config: KafkaProducer | Mapping[str, Any]) -> None:
        """Make a source; nothing is asked yet.

        Args:
            producer_or_config: A producer, of which no reference is kept, or kafka-python's settings. Those
                that say how to connect are used, others ignored; none is logged.

        Raises:
            ConfigurationError: it is neither, or a file that the settings name does not exist.
        """
        self._taught: Any = None  # the metadata of a producer
        if isinstance(producer_or_config, KafkaProducer):
            self._taught = producer_or_config._metadata
            config = {**producer_or_config.config, "receive_message_max_bytes": _ANSWER_BYTES}
        elif isinstance(producer_or_config, Mapping):
            config = {"receive_message_max_bytes": _ANSWER_BYTES, **producer_or_config}
        else:
            raise ConfigurationError(
                f"give a KafkaProducer or a mapping of settings, not a {type(producer_or_config).__name__}"
            )
        for name in _FILES:
            if config.get(name) is not None and not Path(config[name]).is_file():
                raise ConfigurationError(f"{name}: there is no file {config[name]}")
        self._config = self._settings = config
        self._client: Any = None
        self._process = OwnProcess("KafkaPythonMetadataSource")
        # Why each broker did not answer: while kafka-python waits to connect again, it does not say why.
        self._complaints: dict[int | str, str] = {}

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        """See `MetadataSource.fetch`.

        Topics that a producer knows are asked for, too: its metadata is replaced as a whole.
        """
        self._process.check()
        if topics is not None and self._taught is not None:
            topics |= self._taught.topics(exclude_internal_topics=False)
        try:
            manager, deadline = self._manager(), time.monotonic() + timeout
            answer: Observation = run(manager, timeout, self._ask, manager, topics, deadline)
        except Exception as error:
            if up_to_date(self._config) != self._settings:  # a password was replaced in its file
                self.close()
            if isinstance(error, MetadataFetchError):
                raise
            raise MetadataFetchError(f"could not ask: {error!r}") from error
        return answer

    def _manager(self) -> Any:
        """Return the manager of our connections."""
        if self._client is None:
            self._settings = up_to_date(self._config)
            client = KafkaNetClient(**self._settings)
            client._net.start()
            self._client = client
        return self._client._manager

    async def _ask(self, manager: Any, topics: frozenset[str] | None, deadline: float) -> Observation:
        """Ask one broker after the other, on the I/O thread."""

        async def ask(node_id: int | str, limit_s: float) -> Any:
            connection: Any = None
            is_new = False
            try:
                connection = manager.get_connection(node_id, refresh_metadata_on_err=False)
                is_new = not connection.connected
                return await manager.wait_for(connection.send_request(_request(topics)), 1000 * limit_s)
            except errors.NodeNotReadyError as error:  # it failed a moment ago, or is busy
                raise NoAnswerError(self._complaints.get(node_id, str(error))) from error
            except (errors.KafkaError, OSError) as error:  # OSError: a file of keys or certificates
                why = f"{error}{_explanation(error, connection, manager) if is_new else ''}"
                raise NoAnswerError(why) from error

        node_id, response = await first_answer(_candidates(manager), ask, deadline, self._complaints)
        answer = observation(response, node_id, topics, errors.for_code)
        if self._taught is not None:
            _teach(self._taught, response)
        response.topics = []  # our client is to remember the brokers: the bootstrap addresses may go away
        manager.cluster.update_metadata(response)
        return answer

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None and not self._process.is_another:
            client.close()


def _teach(cluster: Any, response: Any) -> None:
    """Give a producer the very response that we read, if it lacks partitions of a topic it knows.

    Asking it to refresh its metadata would be simpler, but its own request creates topics that are gone.
    For the same reason topics with an error are left out: kafka-python would at once ask for them again.
    They come back when the producer needs them.
    """
    if not grown(cluster, response):
        return
    known = cluster.topics(exclude_internal_topics=False)
    response.topics = [t for t in response.topics if not t.error_code and t.name in known]
    try:
        cluster.update_metadata(response)
    except Exception as error:  # noqa: BLE001 - a listener of the user's; the update itself is done by then
        _log.warning("kafka_python_metadata_listener_failed", error=repr(error))
    if lacking := grown(cluster, response):
        raise MetadataFetchError(f"the producer did not learn of new partitions of {', '.join(lacking)}")


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
        min_version=_TOPIC_IDS_SINCE,
    )


def policies_over(cluster: Any) -> CleanupPolicies:
    """Return what asks any broker for topics' ``cleanup.policy``, by its producer's connections."""
    manager = cluster._manager

    async def answer(topic: str) -> Answer:
        request = DescribeConfigsRequest(resources=[(TOPIC, topic, ["cleanup.policy"])], min_version=0)
        (result,) = (await manager.send(request)).results
        found = [it.value or "" for it in result.configs if it.name == "cleanup.policy"]
        return found[0] if found else None, error_name(errors.for_code, result.error_code)

    return CleanupPolicies(lambda: nullcontext(lambda topic: run(manager, TIMEOUT_S, answer, topic)))
