"""Looks at the control topics of a cluster, and makes them as they should be. Needs confluent-kafka."""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import described_topic, error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.rights import is_refusal
from kafka_partition_events.control.protocol.topics import (
    REPLICAS,
    Action,
    ControlTopic,
    Difference,
)
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.reconcile import UNKNOWN_TOPIC

_LIMIT_S: Final = 15.0


class ControlTopicAdmin:
    """The control topics of one cluster. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connect in the background.

        Args:
            config: librdkafka's settings; those that say how to connect are used.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._connection = Connection(config)

    def look(self, wanted: Collection[ControlTopic]) -> dict[str, ControlTopic]:
        """Return those of the topics that are there, by name.

        Raises:
            MetadataFetchError: no broker answers, or not for us.
        """
        names = [topic.name for topic in wanted]
        try:
            answers = self._connection.admin().describe_topics(  # which creates none
                TopicCollection(names), request_timeout=_LIMIT_S
            )
            found = {name: self._described(name, answer) for name, answer in answers.items()}
            configs = self._configs([name for name, info in found.items() if info is not None])
        except (KafkaException, TimeoutError) as error:
            raise self._connection.failure("can't look at the control topics", error) from error
        return {
            name: ControlTopic(
                name=name,
                partitions=len(info.partitions),
                replicas=min((len(each.replicas) for each in info.partitions), default=0),
                config=configs[name],
            )
            for name, info in found.items()
            if info is not None and name in configs
        }

    def setting(self, topic: str, name: str) -> str | None:
        """Return a setting of any topic; None: it may not be seen, or no broker answers."""
        try:
            return self._configs([topic]).get(topic, {}).get(name)
        except (KafkaException, TimeoutError, MetadataFetchError):
            return None

    def replicas(self) -> int:
        """Return how many replicas a topic gets by default: three, or as many as there are brokers.

        Raises:
            MetadataFetchError: no broker answers, or not for us.
        """
        try:
            return min(REPLICAS, len(self._connection.admin().list_topics(timeout=_LIMIT_S).brokers))
        except KafkaException as error:
            raise self._connection.failure("can't look at the brokers", error) from error

    def carry_out(self, differences: Iterable[Difference], replicas: int | None = None) -> None:
        """Create and configure topics; what can't be made right is passed over.

        Args:
            differences: What is otherwise.
            replicas: How many replicas new topics get; None: as many as `replicas` says.

        Raises:
            MetadataFetchError: it was refused, or no broker answers.
        """
        for difference in differences:
            topic, creates = difference.topic, difference.action is Action.CREATE
            try:
                if creates:
                    self._create(topic, replicas or self.replicas())
                elif difference.action is Action.CONFIGURE:
                    self._configure(topic, (difference.found or {})["config"])
            except (KafkaException, TimeoutError) as error:
                needed = Right(("Create" if creates else "AlterConfigs",), "topic", topic.name)
                raise self._connection.failure(str(difference), error, needed) from error

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _described(self, name: str, answer: "Future[Any]") -> TopicInfo | None:
        """Return a topic; None if there is none. One that must not be seen is not taken for missing."""
        try:
            return described_topic(answer.result(_LIMIT_S))
        except KafkaException as error:
            if is_refusal(error_name(error.args[0])):
                raise self._refusal("Describe", name, error) from error
            if error_name(error.args[0]) != UNKNOWN_TOPIC:
                raise
        return None

    def _refusal(self, operation: str, name: str, error: KafkaException) -> MetadataFetchError:
        needed = Right((operation,), "topic", name)
        return self._connection.failure(f"can't look at topic {name}", error, needed)

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        answers = self._connection.admin().describe_configs(resources, request_timeout=_LIMIT_S)
        found: dict[str, dict[str, str]] = {}
        for resource, answer in answers.items():
            try:
                entries = answer.result(_LIMIT_S)
            except KafkaException as error:
                if error_name(error.args[0]) == UNKNOWN_TOPIC:
                    continue  # it is new, and the broker that was asked has not heard of it yet
                raise self._refusal("DescribeConfigs", resource.name, error) from error
            found[resource.name] = {entry.name: entry.value for entry in entries.values()}
        return found

    def _create(self, topic: ControlTopic, replicas: int) -> None:
        new = NewTopic(topic.name, topic.partitions, replicas, config=dict(topic.config))
        answers = self._connection.admin().create_topics([new], request_timeout=_LIMIT_S)
        try:
            answers[topic.name].result(_LIMIT_S)
        except KafkaException as error:
            if error_name(error.args[0]) != "TOPIC_ALREADY_EXISTS":  # another was first
                raise

    def _configure(self, topic: ControlTopic, names: Iterable[str]) -> None:
        entries = [
            ConfigEntry(name, topic.config[name], incremental_operation=AlterConfigOpType.SET)
            for name in names
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
        answers = self._connection.admin().incremental_alter_configs([resource], request_timeout=_LIMIT_S)
        answers[resource].result(_LIMIT_S)
