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

from attrs import evolve
from confluent_kafka import KafkaException

from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.changes.round import Outcome
from kafka_partition_events.control.groups.outside_view import Prober
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.topics import PREFIX, tracker_name
from kafka_partition_events.control.tracker.election import Membership
from kafka_partition_events.control.tracker.leadership import Setting, Tenure, Watcher
from kafka_partition_events.control.tracker.status import Tally, TrackerStatus
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
        open_prober: Callable[[], Prober] | None = None,
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
        self._tally = Tally()
        self._standing = self._tally.standing_by()
        self._watcher = Watcher(config, interval)
        allowed = evolve(policy or Policy(), prefix=prefix)
        self._grower = Grower(config, allowed)
        self._setting = Setting(
            config=config if control is None else control,
            prefix=prefix,
            name=self.name,
            watcher=self._watcher,
            grower=self._grower,
            open_prober=open_prober,
            policy=allowed,
            skipped=self._tally.skipped,
        )
        self._turned_at = time.monotonic()

    @property
    def standing(self) -> TrackerStatus:
        """How it stands."""
        return self._standing

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
        self._standing = self._tally.standing_by()

    def close(self) -> None:
        """Close the connections; after `run` has returned."""
        self._watcher.poller.close()
        self._grower.close()

    def _begin_again(self, why: str) -> None:
        if why != self._standing.trouble:
            _log.warning("tracker_begins_again", name=self.name, error=why)
        self._tally.setbacks += 1
        self._standing = self._tally.standing_by(why)
        self._turned_at = time.monotonic()

    def _take_part(self, stop: threading.Event) -> None:
        with contextlib.ExitStack() as parts:
            setting = self._setting
            membership = Membership(setting.config, setting.prefix, setting.skipped)
            parts.enter_context(contextlib.closing(membership))
            membership.join()
            tenure: Tenure | None = None
            check_at = 0.0
            while not stop.is_set():
                commands = membership.commands(ROUND_S)
                self._turned_at = time.monotonic()
                if not membership.elected:
                    if tenure is not None:
                        raise ControlTopicError("another tracker was elected")
                    if self._turned_at >= check_at:
                        membership.check()
                        check_at = self._turned_at + _CHECK_S
                    self._standing = self._tally.standing_by()
                    continue
                if tenure is None:
                    tenure = parts.enter_context(contextlib.closing(Tenure(setting)))
                    _log.info("tracker_elected", name=self.name, epoch=tenure.epoch)
                began = time.monotonic()
                outcome = tenure.round(commands)
                membership.commit()
                self._tally.count(outcome, time.monotonic() - began)
                self._standing = self._tally.standing(tenure.ledger, outcome.at_ms)
                _tell(outcome)
            if tenure is not None:
                tenure.resign()


def _tell(outcome: Outcome) -> None:
    for refusal in outcome.refusals:
        _log.warning("command_refused", verb=str(refusal.verb), actor=refusal.actor, why=refusal.detail)
    for change in outcome.moved:
        _log.info("change_moved", **_in_brief(change))
    for change_id, fault in outcome.faults.items():
        _log.error("change_can_not_go_on", change_id=change_id, error=fault)


def _in_brief(change: Change) -> dict[str, object]:
    spec = change.spec
    return {
        "change_id": change.change_id,
        "kind": str(spec.kind),
        "subject": spec.subject,
        "state": str(change.state),
        "gate": str(change.gate),
        "detail": change.detail,
    }


def _text(error: Exception) -> str:
    if isinstance(error, KafkaException):
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return str(error) or repr(error)
