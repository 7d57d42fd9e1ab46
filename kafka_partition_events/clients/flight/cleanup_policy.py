"""Which topics keep a latest value of each key, so that no key may have records in two partitions."""

import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from typing import Final

from kafka_partition_events.log import get_logger

Answer = tuple[str | None, str]
"""A topic's policy; or None, and Kafka's name of the error."""

Ask = Callable[[str], Answer]
"""Asks for a topic, and waits for the answer; what it raises may pass."""

TOPIC: Final = 2  # the protocol's number of this kind of resource
TIMEOUT_S: Final = 10.0  # that a broker has to answer; then it is asked again
_FINAL: Final = frozenset({"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_TOPIC"})

_log = get_logger(__name__)


class CleanupPolicies:
    """Asks each topic's ``cleanup.policy`` once, on a thread that is there as long as it has to ask."""

    def __init__(self, asking: Callable[[], AbstractContextManager[Ask]]) -> None:
        """``asking`` connects, and disconnects at its end."""
        self._asking = asking
        self._topics: Collection[str] = ()  # that are written
        self._thread: threading.Thread | None = None
        self._may: dict[str, bool] = {}

    def may_move(self, topic: str) -> bool:
        """Return whether a topic is known not to be compacted."""
        return self._may.get(topic, False)

    @property
    def refused(self) -> tuple[str, ...]:
        """The topics whose keys stay."""
        return tuple(sorted(topic for topic, may in self._may.copy().items() if not may))

    def ask(self, topics: Collection[str]) -> None:
        """Ask for topics whose policy is not known yet, without waiting. On the poller's thread."""
        self._topics = topics
        is_asking = self._thread is not None and self._thread.is_alive()
        if not is_asking and not self._may.keys() >= set(topics):
            self._thread = threading.Thread(target=self._ask, name="kpe-policies", daemon=True)
            with suppress(RuntimeError):  # no more threads: at the next poll
                self._thread.start()

    def _ask(self) -> None:
        asked: set[str] = set()
        with suppress(Exception), self._asking() as ask:  # what is left is asked for after the next poll
            while new := [it for it in self._topics if it not in self._may and it not in asked]:
                asked.update(new)
                for topic in new:  # one by one: one that may not be seen must not fail the others
                    self._note(topic, *ask(topic))

    def _note(self, topic: str, policy: str | None, why: str) -> None:
        """Note an answer, unless it may be another one later."""
        if policy is not None:
            why = f"cleanup.policy={policy}: each partition would keep a latest value of a key that moves"
        elif why not in _FINAL:
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
