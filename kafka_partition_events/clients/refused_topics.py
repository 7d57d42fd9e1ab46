"""Logs topics that a client must not see, once for each."""

from collections.abc import Mapping
from typing import Any

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.rights import is_refusal, lacking
from kafka_partition_events.log import get_logger

_log = get_logger(__name__)


class RefusedTopics:
    """Logs which topics metadata is refused of, and what right is lacking. One thread at a time.

    An event has no more than Kafka's error (`MetadataRejected`).
    """

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def report(self, errors: Mapping[str, str], config: Mapping[str, Any] | None) -> None:
        """Log what is refused now and was not the last time.

        Args:
            errors: Kafka's names of the errors of an answer, by topic.
            config: How the client connects, in librdkafka's words; None if that is not known.
        """
        refused = {topic: error for topic, error in errors.items() if is_refusal(error)}
        for topic in sorted(refused.keys() - self._reported):
            lacks = lacking(refused[topic], [Right(("Describe",), "topic", topic)], config)
            _log.warning("topic_refused", topic=topic, error=lacks)
        self._reported = set(refused)
