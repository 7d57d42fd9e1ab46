"""The tracker: carries out commands, follows changes, and is the only one that writes ``kpe.changes``.

Several may run; the group that reads ``kpe.commands``, a topic of one partition, elects one of them. Who is
elected fences all others by its transactional id, reads everything to its end, and takes a higher epoch. So
one that was frozen in the middle can write nothing when it wakes up. Nothing is kept but in the topics.
"""

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs import evolve
from confluent_kafka import KafkaException

from kafka_partition_events.control.changes.controller import Decision
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.control.tracker.election import Membership
from kafka_partition_events.control.tracker.leadership import Leadership, TrackerConfig
from kafka_partition_events.control.tracker.status import TrackerStatus
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.log import get_logger

ROUND_S: Final = 1.0
"""Seconds between two rounds without a command; with one there is a round at once."""

_RETRY_S: Final = 5.0

_log = get_logger(__name__)


class Tracker:
    """Follows the changes of one cluster. `run` it on one thread; everything else is thread-safe."""

    def __init__(
        self, config: Mapping[str, Any], *, prefix: str = PREFIX, policy: Policy | None = None
    ) -> None:
        """Make a tracker; nothing is asked before `run`.

        Args:
            config: The settings of any librdkafka client for the cluster; those that say how to connect are
                used.
            prefix: What the names of the control topics begin with.
            policy: What is allowed; None: everything but what Kafka and change control stand on.
        """
        self._status = TrackerStatus()
        self._settings = TrackerConfig(
            config=config, prefix=prefix, policy=evolve(policy or Policy(), prefix=prefix)
        )
        self._skipped = 0
        self._turned_at = time.monotonic()

    @property
    def status(self) -> TrackerStatus:
        """How it stands."""
        return evolve(self._status, skipped=dict(self._settings.skipped.counts))

    @property
    def idle_s(self) -> float:
        """Seconds since it last did something: much more than a round's time means that it is stuck."""
        return time.monotonic() - self._turned_at

    def run(self, stop: threading.Event) -> None:
        """Take part until the event is set; then finish the round, and leave, so that another one takes over.

        It raises nothing: whatever goes wrong, it begins again after a few seconds.
        """
        while not stop.is_set():
            try:
                self._take_part(stop)
            except Exception as error:  # noqa: BLE001 - whatever it is, a tracker has to follow the changes
                self._begin_again(_text(error))
                stop.wait(_RETRY_S)
        self._status = self._status.standing_by()

    def _begin_again(self, why: str) -> None:
        if why != self._status.trouble:
            _log.warning("tracker_begins_again", name=self._settings.name, error=why)
        self._status = evolve(self._status.standing_by(why), setbacks=self._status.setbacks + 1)
        self._turned_at = time.monotonic()

    def _take_part(self, stop: threading.Event) -> None:
        with contextlib.ExitStack() as parts:
            settings = self._settings
            membership = Membership(settings.config, settings.prefix, settings.skipped)
            parts.enter_context(contextlib.closing(membership))
            membership.join()
            leadership: Leadership | None = None
            while not stop.is_set():
                commands = membership.commands(ROUND_S)
                self._turned_at = time.monotonic()
                if not membership.elected:
                    if leadership is not None:
                        raise ControlTopicError("another tracker was elected")
                    self._status = self._status.standing_by()
                    continue
                if leadership is None:
                    leadership = parts.enter_context(contextlib.closing(Leadership(settings)))
                    _log.info("tracker_elected", name=settings.name, epoch=leadership.epoch)
                decision = leadership.round(commands)
                membership.commit()
                self._status = self._status.after(decision, leadership.ledger, leadership.cluster_id)
                _log_decision(decision)
                self._log_skipped()

    def _log_skipped(self) -> None:
        """Say where the last record is that was passed over since the last line, and how many there are."""
        skipped, before = self._settings.skipped, self._skipped
        self._skipped = skipped.counts.total()
        if (odd := skipped.latest) is not None and self._skipped > before:
            _log.warning("record_skipped", **attrs.asdict(odd), more=self._skipped - before - 1)


def _log_decision(decision: Decision) -> None:
    for refusal in decision.refusals:
        _log.warning("command_refused", verb=str(refusal.verb), actor=refusal.actor, why=refusal.detail)
    for change in decision.moved:
        _log.info(
            "change_moved",
            change_id=change.change_id,
            topic=change.spec.topic,
            to_count=change.spec.to_count,
            state=str(change.state),
            holds=change.holds,
            detail=change.detail,
        )
    for change_id, fault in decision.faults.items():
        _log.error("change_can_not_go_on", change_id=change_id, error=fault)


def _text(error: Exception) -> str:
    if isinstance(error, KafkaException):
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return str(error) or repr(error)
