"""Which consumer groups read a topic, for a plan. Needs confluent-kafka."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException

from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.control.plan import Group

_AT_ONCE: Final = 100


class GroupReaders:
    """Looks at the consumer groups of a cluster. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connect in the background.

        Args:
            config: librdkafka's settings; those that say how to connect are used.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._connection = Connection(config)

    def of(self, topic: str, timeout: float) -> tuple[Group, ...]:
        """Return the groups with a member that a partition of the topic is assigned to.

        A group that is rebalancing has no assignment, so it is missed; one that assigns by hand, too.

        Args:
            topic: The topic.
            timeout: Seconds for each request.

        Raises:
            MetadataFetchError: nobody answers, or not for us.
        """
        try:
            listed = self._connection.admin().list_consumer_groups(request_timeout=timeout).result(timeout)
            if listed.errors:
                raise listed.errors[0]
            names = sorted(group.group_id for group in listed.valid)
            described = [each for batch in _batches(names) for each in self._described(batch, timeout)]
        except (KafkaException, TimeoutError) as error:
            raise self._connection.failure("can't look at consumer groups", error) from error
        return tuple(
            Group(name=group.group_id, protocol=_protocol(group), members=len(group.members))
            for group in described
            if any(tp.topic == topic for m in group.members for tp in m.assignment.topic_partitions)
        )

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _described(self, names: list[str], timeout: float) -> list[Any]:
        answers = self._connection.admin().describe_consumer_groups(names, request_timeout=timeout)
        found = []
        for answer in answers.values():
            try:
                found.append(answer.result(timeout))
            except KafkaException as error:
                if error.args[0].name() != "GROUP_ID_NOT_FOUND":  # it is gone since it was listed
                    raise
        return found


def _batches(names: list[str]) -> Iterator[list[str]]:
    for first in range(0, len(names), _AT_ONCE):
        yield names[first : first + _AT_ONCE]


def _protocol(group: Any) -> str:
    return str(group.type.name).lower()
