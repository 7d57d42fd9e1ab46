"""What the poller makes of answers: the snapshot in force, the news, and how the poller is doing."""

import traceback
from collections import Counter
from datetime import datetime

from attrs import evolve

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import (
    Event,
    MetadataRecovered,
    MetadataStale,
    MetadataUnavailable,
)
from kafka_partition_events.metadata.health import Health
from kafka_partition_events.metadata.pacing import Pacing
from kafka_partition_events.metadata.publisher import Publisher
from kafka_partition_events.metadata.reconcile import Memory, reconcile
from kafka_partition_events.metadata.source import Observation

_log = get_logger(__name__)

COMING_S = 60.0
"""How long a topic that is asked for by name and not there yet keeps polls fast: it may just be created."""


class Intake:
    """Takes answers and failures in. Not thread-safe: every method is called under the publisher's lock."""

    def __init__(
        self,
        news: Publisher,
        pacing: Pacing,
        clock: Clock,
        max_age: float,
        stored: tuple[Cluster, datetime] | None,
    ) -> None:
        """Make the intake of one poller.

        Args:
            news: Where the outcome goes.
            pacing: When to ask again.
            clock: The time.
            max_age: Seconds after which a snapshot is not trusted any more.
            stored: What the first good answer is compared with, and when that was seen; None: nothing.
        """
        self.health = Health()
        self._news = news
        self._pacing = pacing
        self._clock = clock
        self._max_age = max_age
        self._stored = stored
        self._memory = Memory()
        self._blind_since = clock.monotonic()
        self._asked: frozenset[str] = frozenset()  # every topic that a good answer was ever asked for by name
        self._coming: dict[str, float] = {}  # topics asked for by name that are not there, and since when
        # Topics with standing strikes, and when the last look before the first of them began.
        self._doubted: dict[str, datetime | None] = {}

    def begin(self) -> tuple[float, datetime]:
        """Note that a fetch begins; return when, monotonic and UTC."""
        started_at, began = self._clock.monotonic(), self._clock.now()
        self.health = evolve(self.health, last_attempt=started_at, polls=self.health.polls + 1)
        return started_at, began

    def take(
        self, answer: Observation | BaseException, began: datetime, took: float
    ) -> tuple[tuple[Event, ...], BaseException | None]:
        """Publish what an answer tells.

        Args:
            answer: The answer, or why there is none.
            began: When it was asked for.
            took: Seconds until it came.

        Returns:
            What was published, and why the answer was no use, if so.
        """
        if self._news.closed:
            return (), None
        self.health = evolve(self.health, fetching=self.health.fetching.plus(took))
        if isinstance(answer, BaseException):
            return self._failed(answer), answer
        came = self._clock.monotonic()
        try:
            return self._answered(answer, began), None
        except Exception as error:  # noqa: BLE001 - a bug here must not stop the poller
            self._news.internal_errors += 1
            _log.error("metadata_answer_not_understood", error=repr(error), exception=traceback.format_exc())
            return self._failed(error), error
        finally:
            taking_in = self.health.taking_in.plus(self._clock.monotonic() - came)
            self.health = evolve(self.health, taking_in=taking_in)

    def forget(self, topics: frozenset[str]) -> None:
        """Know nothing more of topics that are not asked for any more; a later look sees them anew."""
        self._asked -= topics
        self._news.forget_topics(topics)

    def check_age(self) -> float:
        """Publish that the snapshot has turned stale, if so; return in how many seconds it will."""
        self._news.tell(self._staleness())
        return self._until_stale()

    def _answered(self, observation: Observation, began: datetime) -> tuple[Event, ...]:
        now = self._clock.monotonic()
        stored = self._stored_for(observation)
        before = self._news.cluster if stored is None else stored[0]
        outcome = reconcile(before, observation, self._memory, now)
        changed = outcome.cluster is not before
        asked = observation.requested or frozenset()
        events: list[Event] = []
        changes: tuple[Event, ...] = ()
        if outcome.good:  # what was refused whole ends no outage and makes no snapshot younger
            if stored is not None:
                self._resume(*stored)
            events += self._recovery(now, resumed=stored is not None)
            if changed:
                changes = self._news.advance(outcome.cluster, asked - self._asked, self._doubted)
                events += changes
            if changed or stored is not None or not self._news.trusted:
                events += self._news.adopt(trusted=True)
            self.health = evolve(self.health, last_success=now, failures=0, last_error=None)
        self._memory = outcome.memory
        events += [self._news.stamped(r.as_event()) for r in outcome.refusals if r.worth_telling]
        events += self._staleness()
        self._coming = {t: self._coming.get(t, now) for t in asked if t not in outcome.cluster.by_topic}
        coming = any(now < since + COMING_S for since in self._coming.values())
        urgent = coming or any(r.may_pass for r in outcome.refusals) or _any_offline(outcome.cluster)
        refused = Counter(r.reason for r in outcome.refusals)
        self.health = evolve(
            self.health,
            refusals={reason: count + refused[reason] for reason, count in self.health.refusals.items()},
            next_delay=self._pacing.after_answer(changed=changed, urgent=urgent),
        )
        if outcome.good:
            self._doubted = {
                topic: self._doubted.get(topic, self._news.previous_at)
                for _, topic, _ in outcome.memory.strikes
                if topic is not None
            }
            self._news.previous_at = began
            self._asked |= asked
        self._news.tell(events, changes)
        return tuple(events)

    def _stored_for(self, observation: Observation) -> tuple[Cluster, datetime] | None:
        if self._stored is None:
            return None
        known, seen = self._stored[0].cluster_id, observation.cluster_id
        if known is not None and seen is not None and known != seen:
            _log.warning("stored_snapshot_ignored", stored=known, cluster_id=seen)  # once, so under the lock
            self._stored = None
        return self._stored

    def _resume(self, stored: Cluster, seen_at: datetime) -> None:
        """Go on from a stored snapshot as if it were the last look's; it becomes visible with the answer."""
        self._news.cluster, self._news.previous_at = stored, seen_at
        self._asked = frozenset(stored.by_topic)
        self._blind_since = self._clock.monotonic() - max(0.0, (self._clock.now() - seen_at).total_seconds())
        self._stored = None

    def _failed(self, error: BaseException) -> tuple[Event, ...]:
        text = str(error) or repr(error)
        failures = self.health.failures + 1
        self.health = evolve(
            self.health,
            failures=failures,
            failed=self.health.failed + 1,
            last_error=text,
            next_delay=self._pacing.after_failure(failures),
        )
        events: list[Event] = []
        if failures == 1:
            events.append(self._news.stamped(MetadataUnavailable(error=text)))
        events += self._staleness()
        self._news.tell(events)
        return tuple(events)

    def _recovery(self, now: float, *, resumed: bool) -> list[Event]:
        if not self.health.failures and self._news.trusted and not resumed:
            return []
        blind = now - (self._blind_since if self.health.last_success is None else self.health.last_success)
        return [self._news.stamped(MetadataRecovered(attempts=self.health.failures, blind_s=blind))]

    def _staleness(self) -> list[Event]:
        left = self._until_stale()
        if left > 0:
            return []
        event = MetadataStale(age_s=self._max_age - left, limit_s=self._max_age)
        return [self._news.stamped(event), *self._news.adopt(trusted=False)]

    def _until_stale(self) -> float:
        last = self.health.last_success
        if last is None or not self._news.trusted:
            return float("inf")
        return last + self._max_age - self._clock.monotonic()


def _any_offline(cluster: Cluster) -> bool:
    return any(not p.online for info in cluster.by_topic.values() for p in info.partitions)
