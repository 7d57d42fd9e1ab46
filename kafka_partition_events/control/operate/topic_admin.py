"""Looks at the control topics of a cluster, and makes them as they should be. Needs confluent-kafka."""

from collections.abc import Collection, Iterable, Mapping
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
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.rights import is_refusal
from kafka_partition_events.control.protocol.topics import (
    REPLICAS,
    Configure,
    ControlTopic,
    Create,
    Difference,
    FoundTopic,
)
from kafka_partition_events.errors import MetadataFetchError
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

    def look(self, wanted: Collection[ControlTopic]) -> dict[str, FoundTopic]:
        """Return those of the topics that are there, by name.

        Raises:
            MetadataFetchError: nobody answers, or not for us.
        """
        try:
            listed = self._connection.admin().list_topics(timeout=_LIMIT_S).topics
            there = [topic.name for topic in wanted if topic.name in listed]
            self._check_missing([topic.name for topic in wanted if topic.name not in listed])
            configs = self._configs(there)
        except (KafkaException, TimeoutError) as error:
            raise self._connection.failure("can't look at the control topics", error) from error
        return {
            name: FoundTopic(
                partitions=len(listed[name].partitions),
                replicas=min((len(p.replicas) for p in listed[name].partitions.values()), default=0),
                config=configs[name],
            )
            for name in there
            if name in configs
        }

    def replicas(self) -> int:
        """Return how many replicas a topic gets by default: three, or as many as there are brokers.

        Raises:
            MetadataFetchError: nobody answers, or not for us.
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
            MetadataFetchError: it was refused, or nobody answers.
        """
        for difference in differences:
            operation = "Create" if isinstance(difference, Create) else "AlterConfigs"
            try:
                if isinstance(difference, Create):
                    self._create(difference.topic, replicas or self.replicas())
                elif isinstance(difference, Configure):
                    self._configure(difference)
            except (KafkaException, TimeoutError) as error:
                needed = Right((operation,), "topic", difference.topic.name)
                raise self._connection.failure(str(difference), error, needed) from error

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _check_missing(self, names: list[str]) -> None:
        """Raise if a topic is missing only for us: to list leaves out what must not be seen."""
        if not names:
            return
        answers = self._connection.admin().describe_topics(TopicCollection(names), request_timeout=_LIMIT_S)
        for name, answer in answers.items():
            try:
                answer.result(_LIMIT_S)
            except KafkaException as error:
                if is_refusal(error_name(error.args[0])):
                    raise self._refusal("Describe", name, error) from error
                if error_name(error.args[0]) != UNKNOWN_TOPIC:
                    raise

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
        new = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=replicas,
            config=dict(topic.config),
        )
        try:
            self._connection.admin().create_topics([new], request_timeout=_LIMIT_S)[topic.name].result(
                _LIMIT_S
            )
        except KafkaException as error:
            if error_name(error.args[0]) != "TOPIC_ALREADY_EXISTS":  # somebody else was first
                raise

    def _configure(self, difference: Configure) -> None:
        name = difference.topic.name
        entries = [
            ConfigEntry(setting, wanted, incremental_operation=AlterConfigOpType.SET)
            for setting, (_, wanted) in difference.differing.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        answers = self._connection.admin().incremental_alter_configs([resource], request_timeout=_LIMIT_S)
        answers[resource].result(_LIMIT_S)
