"""Creates the partitions of a change that the tracker is to execute. Needs confluent-kafka."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import described_topic
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.metadata.cluster import TopicInfo

RETRY_S: Final = 10.0
_LIMIT_S: Final = 15.0


class Grower:
    """Grows topics of one cluster. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any], policy: Policy | None = None) -> None:
        """Connect in the background.

        Args:
            config: The settings of any librdkafka client; those that say how to connect are used.
            policy: What is allowed; None: what is by default.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._connection = Connection(config)
        self._policy = policy or Policy()
        self.troubles: dict[str, str] = {}
        """Why partitions could not be created the last time, by change."""
        self._again_at: dict[str, float] = {}

    def grow(self, due: Collection[Change], may_go_on: Callable[[], bool]) -> bool:
        """Create the partitions of these changes; tell whether a topic has grown.

        What is in vain is told by `troubles`, and tried again after a while as long as it is due.

        Args:
            due: The changes.
            may_go_on: Asked right before each: whether this is the tracker still.
        """
        ids = {change.change_id for change in due}
        self.troubles = {id_: why for id_, why in self.troubles.items() if id_ in ids}
        self._again_at = {id_: at for id_, at in self._again_at.items() if id_ in ids}
        grown = False
        for change in due:
            id_, topic = change.change_id, change.spec.topic
            if time.monotonic() < self._again_at.get(id_, 0.0):
                continue
            try:
                found = self._look(topic)
                why = why_not(change, found, self._policy)
                if not may_go_on():
                    continue
                if why is None:
                    why = self._attempt(topic, change.spec.to_count, len(found.partitions))
            except (KafkaException, TimeoutError) as error:
                why = self._failure(topic, error)
            if why is None:
                grown = True
                self.troubles.pop(id_, None)
            else:
                self.troubles[id_], self._again_at[id_] = why, time.monotonic() + RETRY_S
        return grown

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _look(self, topic: str) -> TopicInfo:
        admin = self._connection.admin()
        answer = admin.describe_topics(TopicCollection([topic]), request_timeout=_LIMIT_S)[topic]
        return described_topic(answer.result(_LIMIT_S))

    def _attempt(self, topic: str, count: int, before: int) -> str | None:
        """Create partitions; return what went wrong. After an error it counts what is there nevertheless."""
        try:
            self._create(topic, count)
        except (KafkaException, TimeoutError) as error:
            there = len(self._look(topic).partitions)
            if there == count:
                return None
            but = "" if there == before else f"; it has {there} partitions now, not {count}"
            return self._failure(topic, error) + but
        return None

    def _create(self, topic: str, count: int) -> None:
        wanted = [NewPartitions(topic, count)]
        answers = self._connection.admin().create_partitions(wanted, request_timeout=_LIMIT_S)
        answers[topic].result(_LIMIT_S)

    def _failure(self, topic: str, error: BaseException) -> str:
        needed = Right(("Alter",), "topic", topic)
        return str(self._connection.failure(f"the tracker can't add partitions to {topic}", error, needed))


def why_not(change: Change, found: TopicInfo, policy: Policy) -> str | None:
    """Return why a topic must not grow, compared just before it does; None: it may. Pure."""
    spec, count = change.spec, len(found.partitions)
    if (forbidden := policy.forbids(spec)) is not None:
        return forbidden
    if None not in {spec.topic_id, found.topic_id} and spec.topic_id != found.topic_id:
        return f"topic {spec.topic} has the id {found.topic_id}, not {spec.topic_id}"
    if count == spec.from_count:
        return None
    return f"topic {spec.topic} has {count} partitions, not {spec.from_count}"
