"""The topics that changes are about: what is there, and how they grow. Needs confluent-kafka."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.described import describe_topics
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import TopicInfo

RETRY_S: Final = 10.0
"""Seconds after which creating is tried again, and by which all brokers have heard of what was created."""
_LIMIT_S: Final = 15.0
_DESCRIBE_S: Final = 5.0
_UNCLEAR: Final = frozenset({"REQUEST_TIMED_OUT", "UNKNOWN", "INVALID_PARTITIONS"})
"""Answers after which partitions may be there nevertheless, beside librdkafka's own errors (``_...``)."""


class Grower:
    """Describes topics of one cluster, and grows them. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any], policy: Policy) -> None:
        """Connect in the background, by librdkafka's settings."""
        self._connection = Connection(config)
        self._policy = policy
        self.troubles: dict[str, str] = {}
        """Why partitions could not be created the last time, by change."""
        self.refused: set[str] = set()
        """The topics that must not be seen, of those that were described last."""
        self._again_at: dict[str, float] = {}
        self._shown_at: dict[str, float] = {}

    def describe(self, topics: Collection[str]) -> dict[str, TopicInfo] | None:
        """Return those of the topics that are there and may be seen; None if no broker answers."""
        refused = self.refused = set[str]()
        try:
            return describe_topics(self._connection, topics, _DESCRIBE_S, refused=refused) if topics else {}
        except (KafkaException, TimeoutError):
            return None

    @property
    def growing(self) -> Collection[str]:
        """The changes whose partitions were created, or may have been, and may not show everywhere yet."""
        now = time.monotonic()
        self._shown_at = {id_: at for id_, at in self._shown_at.items() if now < at}
        return self._shown_at.keys()

    def grow(self, due: Collection[Change], may_go_on: Callable[[], bool]) -> None:
        """Create the partitions of these changes.

        What fails is in `troubles`, and is tried again after a while as long as it is due. Right
        before each it asks whether this is the tracker still.
        """
        ids = {change.change_id for change in due}
        self.troubles = {id_: why for id_, why in self.troubles.items() if id_ in ids}
        self._again_at = {id_: at for id_, at in self._again_at.items() if id_ in ids}
        for change in due:
            id_ = change.change_id
            if time.monotonic() < self._again_at.get(id_, 0.0):
                continue
            if (why := self._trouble(change, may_go_on)) is None:
                self.troubles.pop(id_, None)
            else:
                self.troubles[id_], self._again_at[id_] = why, time.monotonic() + RETRY_S

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _trouble(self, change: Change, may_go_on: Callable[[], bool]) -> str | None:
        """Create partitions; return what went wrong."""
        topic = change.spec.topic
        try:
            found = self._described(topic)
            there, topic_id = (None, None) if found is None else (len(found.partitions), found.topic_id)
            if (why := self._policy.forbids(change.spec, there, topic_id)) is not None or not may_go_on():
                return why
            self._try_to_create(change)
        except MetadataFetchError as error:
            return str(error)
        except (KafkaException, TimeoutError) as error:
            needed = Right(("Alter",), "topic", topic)
            what = f"the tracker can't add partitions to {topic}"
            return str(self._connection.failure(what, error, needed))
        return None

    def _try_to_create(self, change: Change) -> None:
        """Create partitions; after an error it counts what is there nevertheless."""
        topic, count, unclear = change.spec.topic, change.spec.to_count, True
        try:
            self._create(topic, count)
        except (KafkaException, TimeoutError) as error:
            if isinstance(error, KafkaException):
                name = error_name(error.args[0])
                unclear = name.startswith("_") or name in _UNCLEAR
            found = self._described(topic)
            if found is None or len(found.partitions) != count:
                raise
        finally:
            if unclear:
                self._shown_at[change.change_id] = time.monotonic() + RETRY_S

    def _described(self, topic: str) -> TopicInfo | None:
        return describe_topics(self._connection, [topic], _LIMIT_S).get(topic)

    def _create(self, topic: str, count: int) -> None:
        wanted = [NewPartitions(topic, count)]
        answers = self._connection.admin().create_partitions(wanted, request_timeout=_LIMIT_S)
        answers[topic].result(_LIMIT_S)
