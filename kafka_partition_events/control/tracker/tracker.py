"""The tracker: carries out commands, follows changes, and is the only one that writes ``kpe.changes``.

Several may run; the group that reads ``kpe.commands``, a topic of one partition, elects one of them. Who is
elected fences all others by its transactional id, reads everything to its end, and takes a higher epoch. So
one that was frozen in the middle can write nothing when it wakes up. Nothing is kept but in the topics.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from attrs import evolve
from confluent_kafka import KafkaException

from kafka_partition_events.control.changes.controller import Decision
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.groups.prober import GroupProber
from kafka_partition_events.control.protocol.codec import Skipped
from kafka_partition_events.control.protocol.topics import PREFIX, tracker_name
from kafka_partition_events.control.tracker.election import Membership
from kafka_partition_events.control.tracker.leadership import Leadership, TrackerConfig, Watcher
from kafka_partition_events.control.tracker.status import TrackerStatus
from kafka_partition_events.control.tracker.topic_growth import Grower
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.poller import MetadataPoller

ROUND_S: Final = 1.0
"""Seconds between two rounds without a command; with one there is a round at once."""

INTERVAL_S: Final = 10.0
"""Seconds between two looks at the cluster."""

_RETRY_S: Final = 5.0
_CHECK_S: Final = 10.0

_log = get_logger(__name__)


class Tracker:
    """Follows the changes of one cluster. `run` it on one thread; everything else is thread-safe.

    Attributes:
        name: Its consumer group and transactional id.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        control: Mapping[str, Any] | None = None,
        *,
        prefix: str = PREFIX,
        interval: float = INTERVAL_S,
        open_prober: Callable[[], GroupProber] | None = None,
        policy: Policy | None = None,
    ) -> None:
        """Make a tracker; nothing is asked before `run`.

        Args:
            config: The settings of any librdkafka client for the cluster that is changed; those that say how
                to connect are used.
            control: The same for the cluster with the control topics; None: it is the same cluster.
            prefix: What the names of the control topics begin with.
            interval: Seconds between two looks at the cluster's metadata.
            open_prober: Makes what looks at consumer groups; None: of groups nothing is known but what their
                members say.
            policy: What is allowed; None: everything but what Kafka and change control stand on.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self.name = tracker_name(prefix)
        self._skipped = 0
        self._standing = TrackerStatus()
        self._watcher = Watcher(config, interval)
        allowed = evolve(policy or Policy(), prefix=prefix)
        self._grower = Grower(config, allowed)
        self._settings = TrackerConfig(
            config=config if control is None else control,
            prefix=prefix,
            name=self.name,
            watcher=self._watcher,
            grower=self._grower,
            open_prober=open_prober,
            policy=allowed,
            skipped=Skipped(),
        )
        self._turned_at = time.monotonic()

    @property
    def standing(self) -> TrackerStatus:
        """How it stands."""
        return evolve(self._standing, skipped=dict(self._settings.skipped.counts))

    @property
    def idle_s(self) -> float:
        """Seconds since it last did something: much more than a round's time means that it is stuck."""
        return time.monotonic() - self._turned_at

    @property
    def poller(self) -> MetadataPoller:
        """What looks at the cluster."""
        return self._watcher.poller

    def run(self, stop: threading.Event) -> None:
        """Take part until the event is set; then finish the round, and leave, so that another one takes over.

        It raises nothing: whatever goes wrong, it begins again after a few seconds.
        """
        self._watcher.poller.start()
        while not stop.is_set():
            try:
                self._take_part(stop)
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody has to follow the changes
                self._begin_again(_text(error))
                stop.wait(_RETRY_S)
        self._standing = self._standing.standing_by()

    def close(self) -> None:
        """Close the connections; after `run` has returned."""
        self._watcher.poller.close()
        self._grower.close()

    def _begin_again(self, why: str) -> None:
        if why != self._standing.trouble:
            _log.warning("tracker_begins_again", name=self.name, error=why)
        self._standing = evolve(self._standing.standing_by(why), setbacks=self._standing.setbacks + 1)
        self._turned_at = time.monotonic()

    def _take_part(self, stop: threading.Event) -> None:
        with contextlib.ExitStack() as parts:
            settings = self._settings
            membership = Membership(settings.config, settings.prefix, settings.skipped)
            parts.enter_context(contextlib.closing(membership))
            membership.join()
            leadership: Leadership | None = None
            check_at = 0.0
            while not stop.is_set():
                commands = membership.commands(ROUND_S)
                self._turned_at = time.monotonic()
                if not membership.elected:
                    if leadership is not None:
                        raise ControlTopicError("another tracker was elected")
                    if self._turned_at >= check_at:
                        membership.check()
                        check_at = self._turned_at + _CHECK_S
                    self._standing = self._standing.standing_by()
                    continue
                if leadership is None:
                    leadership = parts.enter_context(contextlib.closing(Leadership(settings)))
                    _log.info("tracker_elected", name=self.name, epoch=leadership.epoch)
                began = time.monotonic()
                decision = leadership.round(commands)
                membership.commit()
                counted = self._standing.counted(decision, time.monotonic() - began)
                self._standing = counted.leading(leadership.ledger, decision.at_ms)
                _log_decision(decision)
                self._log_skipped()
            if leadership is not None:
                leadership.resign()

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
            gate=str(change.gate),
            detail=change.detail,
        )
    for change_id, fault in decision.faults.items():
        _log.error("change_can_not_go_on", change_id=change_id, error=fault)


def _text(error: Exception) -> str:
    if isinstance(error, KafkaException):
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return str(error) or repr(error)
