"""Which of several observers of a cluster feeds the sinks: the one that Kafka gives the only partition.

All observers are members of one consumer group that subscribes to a topic of one partition; nobody ever
writes to it. Kafka gives the partition to one member, and to another one within the session time-out if that
one is not heard of. Hand-over, step by step:

- A leader that leaves, or from which the group takes the partition, stops its sinks and commits how far they
  have come *before* it lets the partition go: the next one begins where it ended.
- A leader that is killed has committed that up to `_COMMIT_S` ago: the next one repeats that much.
- A leader that can't reach the group (frozen, cut off) is told by its client that the partition is lost,
  after the same time-out, and stops. Until it notices, two may deliver: at least once, that is.
- A leader that is not fit (blind, can't write its outbox, stuck) leaves, once, and comes back after a while:
  whoever else is there leads then. If nobody is, or nobody is fit, an unfit one is better than none.

How far the sinks have come is a moment for each, as the observers' journals have places of their own. It lies
in the metadata of the committed offset, so it needs no topic, and a commit of a former leader is refused.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name, error_text
from kafka_partition_events.clients.confluent.connection import Login
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.clients.rights import is_refusal
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.progress import (
    LeadersClock,
    Progress,
    Report,
    decode_report,
    encode_report,
)
from kafka_partition_events.observe.shared import REQUEST_S, ensure_topic

SESSION_S: Final = 10.0
_COMMIT_S: Final = 5.0
_LOOK_S: Final = 0.5
_REST_S: Final = 30.0
"""How long an observer that was not fit to lead stays away, unless it is fit again sooner."""

_log = get_logger(__name__)


class Election:
    """Takes part in the election, on a thread of its own.

    The callbacks run on that thread. While it is the leader, the progress is committed every few seconds.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        topic: str,
        group: str,
        on_elected: Callable[[Progress], None],
        on_deposed: Callable[[], None],
        on_progress: Callable[[Progress], None],
        progress: Callable[[], Progress],
        why_unfit: Callable[[], str | None],
        patience: float,
        clock: Clock,
    ) -> None:
        """Make it; nothing is asked before `start`.

        Args:
            config: librdkafka's settings; those that say how to connect are used.
            topic: The topic; it is created with one partition if need be.
            group: The consumer group.
            on_elected: Called with the progress of the former leader.
            on_deposed: Called when another one is to follow, or this one left; returns when the sinks have
                stopped. Must not raise; the others may, and this observer leaves and joins again then.
            on_progress: Called now and then in an observer that stands by, with the leader's progress.
            progress: Returns this leader's progress.
            why_unfit: Returns why this observer had better not lead, None if it is well.
            patience: How many seconds a leader may be unfit before it leaves.
            clock: Tells the time, which other observers compare with theirs.
        """
        self._config = config
        self._topic, self._group = topic, group
        self._on_elected, self._on_deposed = on_elected, on_deposed
        self._on_progress, self._progress = on_progress, progress
        self._why_unfit, self._patience = why_unfit, patience
        self._unfit_since: float | None = None
        self._has_left = False  # since it was fit last
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None  # none before it runs
        self._clock = clock
        self._leaders_clock = LeadersClock()
        self._leader = False
        self._assigned = False
        self._member = False

    @property
    def alive(self) -> bool:
        """Whether its thread runs, or is not to."""
        return self._thread is None or self._stopping.is_set() or self._thread.is_alive()

    @property
    def leader(self) -> bool:
        """Whether this observer feeds the sinks."""
        return self._leader

    @property
    def member(self) -> bool:
        """Whether it has a place in the group: one that has none takes nothing over."""
        return self._member

    def start(self) -> None:
        """Begin to take part."""
        thread = threading.Thread(target=self._run, name="kpe-election", daemon=True)
        thread.start()
        self._thread = thread

    def close(self, timeout: float = 15.0) -> None:
        """Leave; the leader hands over first. Idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout)

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                ensure_topic(self._config, self._topic)
                self._take_part()
                self._rest()
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody has to feed the sinks
                _log.error("election_failed", topic=self._topic, error=self._text(error))
                self._stopping.wait(_COMMIT_S)

    def _take_part(self) -> None:
        """Be a member of the group until `close`, or until somebody else had better lead."""
        login = Login(self._config)
        consumer = Consumer(
            {
                "log_level": 2,
                **connecting(self._config),
                "error_cb": login.note,
                "group.id": self._group,
                "session.timeout.ms": int(SESSION_S * 1000),
                "heartbeat.interval.ms": 2_000,
                # Whoever has the partition keeps it when another observer comes.
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([self._topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._lost)
        try:
            self._look_after(consumer, login)
        finally:
            with contextlib.suppress(KafkaException):
                consumer.close()  # calls `_taken` if there is something to hand over
            self._assigned = self._member = False
            self._step_down()

    def _look_after(self, consumer: Consumer, login: Login) -> None:
        due, told = 0.0, ""
        while not (self._stopping.is_set() or self._should_leave()):
            message = consumer.poll(_LOOK_S)
            if message is not None and (trouble := message.error()) is not None:
                if is_refusal(error_name(trouble)):
                    raise KafkaException(trouble)
                _log.warning("election_trouble", error=trouble.str())
            if login.refusal is not None and login.refusal.str() != told:
                told = login.refusal.str()
                _log.warning("election_trouble", error=told)
            if not self._assigned:
                login.check()
            if self._assigned and not self._leader:
                self._step_up(consumer)
            elif time.monotonic() >= due:
                due = time.monotonic() + _COMMIT_S
                if self._leader:
                    self._commit(consumer)
                elif (progress := self._committed(consumer)) is not None:
                    self._on_progress(progress)

    def _should_leave(self) -> bool:
        reason, now = self._why_unfit(), time.monotonic()
        if reason is None:
            self._unfit_since, self._has_left = None, False
            return False
        if self._unfit_since is None:
            self._unfit_since = now
        if not self._leader or self._has_left or now - self._unfit_since < self._patience:
            return False
        _log.error("election_left", topic=self._topic, reason=reason)
        self._has_left = True
        return True

    def _rest(self) -> None:
        """Let somebody else be elected."""
        back_at = time.monotonic() + _REST_S
        while self._why_unfit() is not None and time.monotonic() < back_at:
            if self._stopping.wait(_LOOK_S):
                return

    # -- coming and going ----------------------------------------------------------------------------

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._member = True  # the group tells everybody what he gets, if only that it is nothing
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)  # there is nothing to be read, and so nothing to be fetched
            self._assigned = True  # what follows is no work for a callback: see `_look_after`

    def _taken(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._leader:
            self._step_down()
            self._commit(consumer)
        self._assigned = False
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _log.warning("election_lost", topic=self._topic)
        self._assigned = self._member = False
        self._step_down()
        consumer.incremental_unassign(partitions)

    def _step_up(self, consumer: Consumer) -> None:
        progress = self._committed(consumer)
        if progress is None:
            return  # the coordinator does not answer; the next round asks again
        self._leader = True
        _log.info("elected", topic=self._topic)
        self._on_elected(progress)

    def _step_down(self) -> None:
        if self._leader:
            self._leader = False
            self._on_deposed()
            _log.info("deposed", topic=self._topic)

    # -- progress ------------------------------------------------------------------------------------

    def _commit(self, consumer: Consumer) -> None:
        now = self._clock.now()
        report = encode_report(Report(at=now, progress=self._progress()))
        place = TopicPartition(self._topic, 0, 0, metadata=report)
        try:
            consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException as error:
            _log.warning("election_progress_not_committed", error=error.args[0].str())

    def _committed(self, consumer: Consumer) -> Progress | None:
        """Return what was committed last, empty if nothing was; None if nobody can tell."""
        asked_at = self._clock.monotonic()
        try:
            (place,) = consumer.committed([TopicPartition(self._topic, 0)], timeout=REQUEST_S)
        except KafkaException as error:
            _log.warning("election_progress_not_read", error=error.args[0].str())
            return None
        now, monotonic = self._clock.now(), self._clock.monotonic()
        report = decode_report(place.metadata)
        return self._leaders_clock.here(report, asked_at=asked_at, now=now, monotonic=monotonic)

    def _text(self, error: Exception) -> str:
        if not isinstance(error, KafkaException):
            return str(error) or repr(error)
        needed = Right(("Read", "Create"), "topic", self._topic), Right(("Read",), "group", self._group)
        return error_text(error.args[0], self._config, *needed)
