"""What commands use of the world outside; tests hand in their own."""

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import field, frozen

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.common.output import report
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.clock import Clock

if TYPE_CHECKING:
    from kafka_partition_events.clients.confluent.connection import Connection
    from kafka_partition_events.control.operate.client import ControlClient
    from kafka_partition_events.metadata.cluster import Cluster
    from kafka_partition_events.metadata.events import Event
    from kafka_partition_events.metadata.poller import MetadataPoller
    from kafka_partition_events.metadata.source import MetadataSource

FIRST_ANSWER_S = 7.0
"""How long the first answer may take: a wrong address must be reported within 10 s, start-up included."""


class SampledRecord(NamedTuple):
    """A record, as far as it matters where it was placed."""

    partition: int
    offset: int
    key: bytes | None


@frozen(kw_only=True)
class KeySample:
    """What was read.

    Attributes:
        partitions: How many the topic has.
        records: The records, in no order.
        offline: Partitions without a leader, which can't be read.
        timed_out: Whether there was no time for more.
    """

    partitions: int
    records: Sequence[SampledRecord]
    offline: int = 0
    timed_out: bool = False


_CONNECTING_S = 2.0
_QUIET = {"log_level": "2"}  # librdkafka's own lines on stderr; what matters comes as an error or an event


@contextlib.contextmanager
def refusals_in_one_line() -> Iterator[None]:
    """Let an extra that is missing, or a setting that is refused, be a `CliError`."""
    try:
        yield
    except (ImportError, ConfigurationError) as error:
        raise CliError(one_line(error)) from error


def open_confluent_source(config: Mapping[str, str]) -> "MetadataSource":
    """Return a source on a confluent-kafka client of its own.

    Raises:
        CliError: confluent-kafka is missing or refuses an option, or no broker listens.
    """
    with refusals_in_one_line():
        from kafka_partition_events.clients.confluent import ConfluentMetadataSource

        check(config)
        return ConfluentMetadataSource({**_QUIET, **config})


@contextlib.contextmanager
def connected(config: Mapping[str, str]) -> "Iterator[Connection]":
    """Open a connection to ask over; as `open_confluent_source`."""
    with refusals_in_one_line():
        from kafka_partition_events.clients.confluent.connection import Connection

        check(config)
        connection = Connection(config)
    with contextlib.closing(connection):
        yield connection


def list_topics(connection: "Connection", topic: str | None = None) -> Any:
    """Return the brokers and topics that there are, or one topic.

    Raises:
        CliError: no broker answers.
    """
    from confluent_kafka import KafkaException

    asked = [] if topic is None else [topic]
    try:
        return connection.admin().list_topics(*asked, timeout=FIRST_ANSWER_S)
    except KafkaException as error:
        raise CliError(one_line(connection.failure("no answer from the brokers", error))) from error


def check(config: Mapping[str, str]) -> None:
    """Check options and addresses, as `check_options` and `check_addresses`."""
    check_options(config)
    check_addresses(config)


def check_options(config: Mapping[str, str]) -> None:
    """Let librdkafka check every option.

    The source passes over settings that have nothing to do with connecting, as it must inside a producer.
    Here they come from a command line, where one that means nothing is a slip of the pen.

    Raises:
        CliError: it refuses one. The message shows names of options, but no values.
        ImportError: confluent-kafka is missing.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    unconnected = {name: value for name, value in config.items() if name != "bootstrap.servers"}
    try:
        AdminClient({**_QUIET, **unconnected})
    except KafkaException as error:
        refusal = redacted(one_line(error.args[0].str()), config)
        raise CliError(f"librdkafka refuses an option: {refusal}") from error


def check_addresses(config: Mapping[str, str]) -> None:
    """Connect to the named brokers, and disconnect: where none is, librdkafka tries for its whole time.

    Raises:
        CliError: each of them refuses, or has a name that there is not.
    """
    causes: list[str] = []
    for address in config["bootstrap.servers"].split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECTING_S).close()
        except ConnectionRefusedError:
            causes.append(f"Connection refused by {address}: is the address right, and is a broker up there?")
        except socket.gaierror as error:
            causes.append(f"Failed to resolve {address}: {error.strerror}; is the name right?")
        except (OSError, ValueError):  # librdkafka says more of what else there is
            return
        else:
            return
    raise CliError(causes[0])


def sample_with_confluent(config: Mapping[str, str], topic: str, records: int, timeout: float) -> KeySample:
    """Read the latest records of a topic with confluent-kafka, and report how far it is.

    Raises:
        CliError: as `open_confluent_source`; or no answer, no such topic, or no right to read it.
    """
    with refusals_in_one_line():
        from kafka_partition_events.cli.services.sampling import sample_topic
    return sample_topic(config, topic, records, timeout)


def open_confluent_client(config: Mapping[str, str], prefix: str) -> "ControlClient":
    """Return a way to a cluster and its control topics, by confluent-kafka.

    Raises:
        CliError: confluent-kafka is missing or refuses an option.
    """
    with refusals_in_one_line():
        from kafka_partition_events.control.operate.client import ControlClient

        check(config)
        return ControlClient(config, prefix)


@frozen(kw_only=True)
class Services:
    """The cluster and the time."""

    open_source: Callable[[Mapping[str, str]], "MetadataSource"] = open_confluent_source
    sample: Callable[[Mapping[str, str], str, int, float], KeySample] = sample_with_confluent
    open_client: Callable[[Mapping[str, str], str], "ControlClient"] = open_confluent_client
    clock: Clock = field(factory=Clock)


def first_poll(
    services: Services, config: Mapping[str, str], interval: float = 30.0
) -> "tuple[MetadataPoller, tuple[Event, ...]]":
    """Return a poller that has its first snapshot and does not run yet, and the events of that snapshot.

    Raises:
        CliError: there was no good answer. The message shows names of options, but no values.
    """
    from kafka_partition_events.metadata.poller import MetadataPoller

    try:
        source = services.open_source(config)
    except CliError as error:
        raise CliError(redacted(str(error), config)) from None
    poller = MetadataPoller(source, interval=interval, fetch_timeout=FIRST_ANSWER_S, clock=services.clock)
    with contextlib.ExitStack() as undo:
        undo.callback(poller.close, timeout=1.0)
        initial = poller.poll_once()
        if poller.cluster is None:
            cause = poller.health.last_error or "the answer listed no brokers"
            where = config["bootstrap.servers"]
            raise CliError(f"no metadata from {where}: {redacted(one_line(cause), config)}")
        if not poller.cluster.by_topic:
            report(f"note: {no_topic(config)}")
        undo.pop_all()
    return poller, initial


def read_cluster(services: Services, config: Mapping[str, str], topics: str | None = None) -> "Cluster":
    """Return the cluster as it is, with the topics only that ``--topics`` names.

    Raises:
        CliError: as `first_poll`; or no topic is wanted, though some were named: that is no good news.
    """
    from kafka_partition_events.cli.common.topic_filter import TopicFilter

    wanted = TopicFilter(topics)
    poller, _ = first_poll(services, config)
    with contextlib.closing(poller):
        cluster = poller.cluster
    assert cluster is not None  # noqa: S101 - the first poll has it
    chosen = wanted.narrowed(cluster)
    if cluster.by_topic and not chosen.by_topic:
        raise CliError(f"no topic is called {wanted}; --topics is a regular expression")
    return chosen


def no_topic(config: Mapping[str, str]) -> str:
    """Return what it means that there are no topics: brokers leave out what must not be seen."""
    from kafka_partition_events.acls import Right
    from kafka_partition_events.clients.rights import lacks, principal

    who = principal(config)
    missing = lacks([Right(("Describe",), "topic", "*")], who, config["bootstrap.servers"])
    return f"no topic is visible: there is none, or {missing}"
