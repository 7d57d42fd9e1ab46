"""Describes the control topics of a cluster, and creates them. Needs confluent-kafka."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.control.described import describe_topics
from kafka_partition_events.control.protocol.topics import ControlTopic
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.reconcile import UNKNOWN_TOPIC

_LIMIT_S: Final = 15.0
_REPLICAS: Final = 3
"""How many each topic gets, where there are so many brokers."""


class ControlTopicAdmin:
    """The control topics of one cluster. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connect in the background, by librdkafka's settings."""
        self._connection = Connection(config)

    def describe(self, wanted: Collection[ControlTopic]) -> dict[str, ControlTopic]:
        """Return those of the topics that are there, by name.

        Raises:
            MetadataFetchError: no broker answers, or not for us.
        """
        try:
            there = describe_topics(self._connection, [topic.name for topic in wanted], _LIMIT_S)
            configs = self._configs(there)
        except (KafkaException, TimeoutError) as error:
            raise self._connection.failure("can't describe the control topics", error) from error
        return {
            name: ControlTopic(name=name, partitions=len(there[name].partitions), config=config)
            for name, config in configs.items()
        }

    def is_compacted(self, topic: str) -> bool | None:
        """Return whether any topic is compacted; None: that can't be seen."""
        try:
            policy = self._configs([topic]).get(topic, {}).get("cleanup.policy")
        except (MetadataFetchError, TimeoutError):
            return None
        return None if policy is None else "compact" in policy

    def create(self, topics: Iterable[ControlTopic]) -> None:
        """Create topics.

        Raises:
            MetadataFetchError: it was refused, or no broker answers.
        """
        admin = self._connection.admin()
        for topic in topics:
            try:
                replicas = min(_REPLICAS, len(admin.list_topics(timeout=_LIMIT_S).brokers))
                new = NewTopic(topic.name, topic.partitions, replicas, config=dict(topic.config))
                admin.create_topics([new], request_timeout=_LIMIT_S)[topic.name].result(_LIMIT_S)
            except (KafkaException, TimeoutError) as error:
                if isinstance(error, KafkaException) and error_name(error.args[0]) == "TOPIC_ALREADY_EXISTS":
                    continue  # another was first
                needed = Right(("Create",), "topic", topic.name)
                raise self._connection.failure(str(topic), error, needed) from error

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        if not (resources := [ConfigResource(ResourceType.TOPIC, name) for name in names]):
            return {}
        answers = self._connection.admin().describe_configs(resources, request_timeout=_LIMIT_S)
        found: dict[str, dict[str, str]] = {}
        for resource, answer in answers.items():
            try:
                entries = answer.result(_LIMIT_S)
            except KafkaException as error:
                if error_name(error.args[0]) == UNKNOWN_TOPIC:
                    continue  # it is new, and the broker that was asked has not heard of it yet
                needed = Right(("DescribeConfigs",), "topic", resource.name)
                raise self._connection.failure(
                    f"can't read the settings of topic {resource.name}", error, needed
                ) from error
            found[resource.name] = {entry.name: entry.value for entry in entries.values()}
        return found
