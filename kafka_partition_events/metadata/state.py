"""What the poller knows, and what an answer makes of it: from state to state, with what to publish. Pure.

`step` takes an answer in, or why there is none; methods of `PollState` let time pass, and drop topics. Time
and chance are arguments. The poller replaces the state and publishes the result, so what raises has changed
nothing. MongoDB's drivers know their servers so (specification of Server Discovery And Monitoring).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Self

from attrs import evolve, field, frozen

from kafka_partition_events.durations import NO_WORK, Durations
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.reconcile import Memory, Reconciliation, reconcile
from kafka_partition_events.metadata.source import Observation

LEAST_MAX_AGE_S, MAX_AGE_INTERVALS = 300.0, 10
"""A snapshot of so many intervals is too old, if that is at least so many seconds."""

COMING_S = 60.0
"""How long a topic that is asked for by name and not there yet keeps polls fast: it may just be created."""

FAST_SHARE = 10
"""While something is offline or refused, polls slow down to this fraction of the interval, no further."""

PATIENCE_STRIKES = 64
"""How often something is refused before it keeps polls fast no more: a missing permission, say, will stay."""

JITTER = 0.9, 1.1
"""What delays are multiplied by: a fleet of producers that were started together must not ask together."""


@frozen(kw_only=True)
class Health:
    """How the poller is doing. Times are seconds of its monotonic clock.

    Attributes:
        running: Whether the polling thread is alive.
        last_attempt: When the last fetch began; None before the first.
        last_success: When the last good answer came; None before the first.
        failures: Failed fetches in a row.
        last_error: The last fetch's error, None when it succeeded.
        polls: Fetches so far.
        failed: How many of them failed.
        fetching: How long fetches took, failed ones too.
        refusals: What the staleness gate refused so far; every reason is there.
        stale: Whether the snapshot is too old to be trusted.
        internal_errors: Bugs of this library that were contained; please report what the log says.
        next_delay: Seconds between the last answer and the next fetch, as planned.
    """

    running: bool = False
    last_attempt: float | None = None
    last_success: float | None = None
    failures: int = 0
    last_error: str | None = None
    polls: int = 0
    failed: int = 0
    fetching: Durations = NO_WORK
    refusals: Mapping[ev.Rejection, int] = field(factory=lambda: dict.fromkeys(ev.Rejection, 0))
    stale: bool = False
    internal_errors: int = 0
    next_delay: float = 0.0


@frozen
class Timing:
    """What a poller was made with, in seconds.

    Raises:
        ConfigurationError: one is out of range.
    """

    interval: float  # between polls when all is well
    fetch_timeout: float  # that one fetch may take
    min_interval: float  # between polls at the least, unless the interval is shorter

    def __attrs_post_init__(self) -> None:
        for name in ("interval", "fetch_timeout", "min_interval"):
            if not (seconds := getattr(self, name)) > 0:
                raise ConfigurationError(f"{name} must be more than 0 seconds, not {seconds}")

    @property
    def max_age(self) -> float:
        """After how long without a good answer a snapshot is not trusted any more (`MetadataStale`)."""
        return max(LEAST_MAX_AGE_S, MAX_AGE_INTERVALS * self.interval)

    @property
    def floor(self) -> float:
        """The least delay."""
        return min(self.min_interval, self.interval)

    def doubled(self, times: int, limit: float) -> float:
        """Return the least delay, doubled so many times but not beyond the limit."""
        return min(limit, self.floor * 2.0 ** min(times, 32))


@frozen
class Moment:
    """What of a moment is not in the state."""

    monotonic: float  # the clock's seconds
    wall_time: datetime  # the same, as an aware UTC time
    sequence: int  # the number of the last event that was published

    def stamp(
        self, events: Iterable[ev.Event], cluster: Cluster, previous_at: datetime | None
    ) -> tuple[ev.Event, ...]:
        """Return events with the next sequence numbers and the common fields."""
        common = self.marks(previous_at)
        common |= {"cluster_id": cluster.cluster_id, "generation": cluster.generation}
        return tuple(evolve(event, sequence=n, **common) for n, event in enumerate(events, self.sequence + 1))

    def marks(self, previous_at: datetime | None) -> dict[str, Any]:
        """Return the fields that say when."""
        return {"observed_at": self.monotonic, "wall_time": self.wall_time, "previous_at": previous_at}


@frozen(kw_only=True)
class StepResult:
    """What is to be published after a step, in this order."""

    events: tuple[ev.Event, ...] = ()
    """Stamped, and numbered on from the moment's sequence."""
    apply: bool = False
    """Whether partitioners apply `PollState.usable` then; what they find out by it comes next."""
    rest: tuple[ev.Event, ...] = ()
    """What comes last, not stamped: it is not known how many events partitioners find."""
    previous_at: datetime | None = None
    """The field of that name, of what they find and of the rest."""
    foreign: str | None = None
    """The answer's cluster id, if a stored snapshot of another cluster has just been dropped."""


@frozen(kw_only=True)
class PollState:
    """What is known between two answers."""

    timing: Timing
    since: float  # when the poller was made, monotonic
    known: Cluster = EMPTY
    """What the next answer is compared with: the last good poll's snapshot, or a stored one."""
    known_at: datetime | None = None  # when that poll began; None if there is neither
    memory: Memory = field(factory=Memory)  # of the gate
    asked: frozenset[str] = frozenset()  # every topic that a good answer was ever asked for by name
    coming: Mapping[str, float] = MappingProxyType({})
    """Topics asked for by name that are not there, and since when."""
    doubted: Mapping[str, datetime | None] = MappingProxyType({})
    """Topics with standing strikes, and when the last poll before the first of them began."""
    hurried: int = 0
    """Polls in a row that were planned soon because something was offline, refused or awaited."""
    health: Health = field(factory=Health)  # what the state does not decide, others fill in

    @property
    def confirmed(self) -> bool:
        """Whether there was a good answer. Before it, what is stored is not shown: it may be hours old."""
        return self.health.last_success is not None

    @property
    def cluster(self) -> Cluster:
        """The snapshot in force; `EMPTY` before the first good answer."""
        return self.known if self.confirmed else EMPTY

    @property
    def usable(self) -> Cluster | None:
        """The snapshot if records may be routed by it."""
        return self.known if self.confirmed and not self.health.stale else None

    @property
    def previous_at(self) -> datetime | None:
        """When the last good poll began."""
        return self.known_at if self.confirmed else None

    def with_health(self, **changes: Any) -> Self:
        """Return the state with other values in its health."""
        return evolve(self, health=evolve(self.health, **changes))

    def resumed(self, stored: Cluster, seen_at: datetime, topics: frozenset[str] | None) -> Self:
        """Return the state with a stored snapshot of a poll that began then.

        Only what is asked for (None: all) remains of it: the rest would never change.
        """
        if topics is not None:
            known = {name: info for name, info in stored.by_topic.items() if name in topics}
            stored = evolve(stored, by_topic=known)
        return evolve(self, known=stored, known_at=seen_at, asked=frozenset(stored.by_topic))

    def aged(self, at: Moment, *events: ev.Event) -> tuple[Self, StepResult]:
        """Take in that time has passed without a good answer, too much perhaps. ``events`` come first."""
        succeeded, limit, last = self.health.last_success, self.timing.max_age, self.previous_at
        age = 0.0 if succeeded is None or self.health.stale else at.monotonic - succeeded
        if age < limit:
            return self, StepResult(events=at.stamp(events, self.cluster, last), previous_at=last)
        stale = ev.MetadataStale(age_s=age, limit_s=limit)
        stamped = at.stamp((*events, stale), self.cluster, last)
        return self.with_health(stale=True), StepResult(events=stamped, apply=True, previous_at=last)

    def without(self, topics: frozenset[str], at: Moment) -> tuple[Self, StepResult]:
        """Drop topics that are not followed any more. They may well exist, so listeners get a `Resync`."""
        after, last = evolve(self, asked=self.asked - topics), self.previous_at
        left = {name: info for name, info in self.cluster.by_topic.items() if name not in topics}
        if len(left) == len(self.cluster.by_topic):
            return after, StepResult()
        cluster = evolve(self.known, by_topic=left, generation=self.known.generation + 1)
        resync = at.stamp((ev.Resync(cluster=cluster),), cluster, last)
        return evolve(after, known=cluster), StepResult(events=resync, apply=True, previous_at=last)


def step(
    state: PollState, answer: Observation | BaseException, began: datetime, at: Moment, jitter: float
) -> tuple[PollState, StepResult]:
    """Take an answer in.

    Args:
        state: What was known before.
        answer: The answer, or why there is none.
        began: When it was asked for.
        at: When it came.
        jitter: What to multiply the next delay by, within `JITTER`.

    Returns:
        What is known now, and what is to be published of it.
    """
    if isinstance(answer, BaseException):
        return _failed(state, answer, at, jitter)
    stored = None if state.confirmed else state.known.cluster_id
    foreign = None if stored in {None, answer.cluster_id} else answer.cluster_id
    if foreign is not None:
        state = evolve(state, known=EMPTY, known_at=None, asked=frozenset())
    outcome = reconcile(state.known, answer, state.memory, at.monotonic)
    asked = answer.requested or frozenset()
    refusals = tuple(r for r in outcome.refusals if r.strike.bit_count() == 1)  # strikes 1, 2, 4, ...
    state = _planned(state, outcome, asked, at.monotonic, jitter)  # what is known is still as it was
    if outcome.good:
        state, news = _believed(state, outcome.cluster, asked, began, at)
        return state, evolve(news, rest=refusals, foreign=foreign)
    state, news = state.aged(at, *refusals)  # what was refused whole ends no outage and makes nothing younger
    return state, evolve(news, foreign=foreign)


def _failed(state: PollState, why: BaseException, at: Moment, jitter: float) -> tuple[PollState, StepResult]:
    text, failures = str(why) or repr(why), state.health.failures + 1
    delay = state.timing.doubled(failures - 1, state.timing.interval)
    after = evolve(state, hurried=0).with_health(
        failures=failures,
        failed=state.health.failed + 1,
        last_error=text,
        next_delay=max(state.timing.floor, delay * jitter),
    )
    return after.aged(at, ev.MetadataUnavailable(error=text)) if failures == 1 else after.aged(at)


def _believed(
    state: PollState, cluster: Cluster, asked: frozenset[str], began: datetime, at: Moment
) -> tuple[PollState, StepResult]:
    health, before, before_at = state.health, state.known, state.known_at
    stored = not state.confirmed and before_at is not None
    ended: tuple[ev.Event, ...] = ()
    if health.failures or health.stale or stored:
        recovered = ev.MetadataRecovered(attempts=health.failures, blind_s=_blind_s(state, at))
        ended = at.stamp((recovered,), before, before_at)
    first, initial = at.sequence + len(ended) + 1, before_at is None
    found = diff(before, cluster, first_sequence=first, initial=initial, **at.marks(before_at))
    changes = tuple(_bounded(event, asked - state.asked, state.doubted) for event in found)
    apply = cluster is not before or stored or health.stale
    in_doubt = {topic for _, topic, _ in state.memory.strikes if topic is not None}
    after = evolve(
        state,
        known=cluster,
        known_at=began,
        asked=state.asked | asked,
        doubted={topic: state.doubted.get(topic, before_at) for topic in in_doubt},
    ).with_health(last_success=at.monotonic, failures=0, last_error=None, stale=False)
    return after, StepResult(events=(*ended, *changes), apply=apply, previous_at=before_at)


def _blind_s(state: PollState, at: Moment) -> float:
    """Return for how many seconds nothing was known for sure."""
    last = state.health.last_success
    if last is None and state.known_at is not None:  # seen by another process, with another monotonic clock
        return max(0.0, (at.wall_time - state.known_at).total_seconds())
    return at.monotonic - (state.since if last is None else last)


def _bounded(
    event: ev.Event, newly_asked: frozenset[str], doubted: Mapping[str, datetime | None]
) -> ev.Event:
    """Return a change with a true bound of when it happened.

    Topics that no poll before this one asked for are seen now, not created. Of doubted ones the last answers
    were not believed, or not in all: it may have happened since the last poll before those.
    """
    if not isinstance(event, ev.TopicEvent):
        return event
    if event.topic in newly_asked:
        return evolve(event, initial=True, previous_at=None)
    return evolve(event, previous_at=doubted[event.topic]) if event.topic in doubted else event


def _planned(
    state: PollState, outcome: Reconciliation, asked: frozenset[str], now: float, jitter: float
) -> PollState:
    """Return the state with what the gate remembers, and with the delay until the next poll.

    Normal polls come every interval. While something is offline, was refused or is just being created, delays
    double from the floor up to a tenth of the interval (at least 1 s), and again from the floor after a
    change, for more may follow soon. After errors they double up to the whole interval.
    """
    timing, refused = state.timing, Counter(refusal.reason for refusal in outcome.refusals)
    coming = {t: state.coming.get(t, now) for t in asked if t not in outcome.cluster.by_topic}
    awaited = any(now < since + COMING_S for since in coming.values())
    offline = any(not p.online for info in outcome.cluster.by_topic.values() for p in info.partitions)
    urgent = offline or awaited or any(r.strike <= PATIENCE_STRIKES for r in outcome.refusals)
    hurried = state.hurried if outcome.cluster is state.known else 0
    fast_limit = min(timing.interval, max(1.0, timing.interval / FAST_SHARE))
    delay = timing.doubled(hurried, fast_limit) if urgent else timing.interval
    after = evolve(state, memory=outcome.memory, coming=coming, hurried=hurried + 1 if urgent else 0)
    return after.with_health(
        refusals={reason: count + refused[reason] for reason, count in state.health.refusals.items()},
        next_delay=max(timing.floor, delay * jitter),
    )
