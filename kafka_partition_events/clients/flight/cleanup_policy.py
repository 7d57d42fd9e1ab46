"""Which topics keep a latest value of each key, so that no key may have records in two partitions."""

import threading
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from kafka_partition_events.log import get_logger

Answer = Callable[[str | None, str], None]
"""Takes a topic's policy; or None, and Kafka's name of the error."""

TOPIC: Final = 2  # the protocol's number of this kind of resource
TIMEOUT_S: Final = 10.0  # that a broker has to answer; then it is asked again
_FINAL: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_TOPIC"})

_log = get_logger(__name__)


class CleanupPolicies:
    """Asks each topic's ``cleanup.policy`` once. The poller's thread asks; `may_move` is thread-safe."""

    def __init__(self, describe: Callable[[str, Answer], None], close: Callable[[], None]) -> None:
        """``describe`` asks for a topic without waiting; ``close`` disconnects, also once all are known."""
        self._describe = describe
        self.close = close
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._may: dict[str, bool] = {}

    def may_move(self, topic: str) -> bool:
        """Return whether a topic is known not to be compacted."""
        return self._may.get(topic, False)

    @property
    def refused(self) -> tuple[str, ...]:
        """The topics whose keys stay."""
        return tuple(sorted(topic for topic, may in self._may.copy().items() if not may))

    def ask(self, topics: Collection[str]) -> None:
        """Ask for topics that were not asked for yet, without waiting; once all are known, disconnect."""
        with self._lock:
            new = [topic for topic in topics if topic not in self._may and topic not in self._asked]
            self._asked.update(new)
            is_idle = not self._asked
        for topic in new:  # one by one: one that may not be seen must not fail the others
            self._describe(topic, partial(self._answered, topic))
        if is_idle:
            self.close()

    def _answered(self, topic: str, policy: str | None, why: str) -> None:
        """Note an answer; what may be another one later is asked for again."""
        if policy is not None:
            why = f"cleanup.policy={policy}: each partition would keep a latest value of a key that moves"
        with self._lock:
            self._asked.discard(topic)
            if policy is None and why not in _FINAL:
                return
            self._may[topic] = policy is not None and "compact" not in policy
        if not self._may[topic]:
            _log.error(
                "keys_stay",
                topic=topic,
                why=why,
                meaning='keys="move" has no effect on this topic: its keys wait for a sick broker',
                cure="allow DescribeConfigs, leave keys out, or give keys=MoveKeys(compacted_ok=True)",
            )
