"""Posts what fires to Prometheus' Alertmanager, by its API v2, a thread for each of its URLs.

What fires is posted when it changes and after each ``repeat_interval``, each time with an end `INTERVALS` of
these ahead: an observer that dies leaves nothing behind that would fire for ever. What is over is posted once
with its end, when it has been over for one interval of the observer: until then the other observer of a pair
may not have seen it yet. That an observer is blind ends by itself only: the other one may be blind still, and
its alert has the same labels. Nothing is kept on disk: what is wrong is read from the cluster.

Starts and ends are times of Alertmanager's own clock, as its answers give it, so an observer whose clock is a
day off posts the same alert as the other one.

Source: https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml
"""

import contextlib
import json
import math
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

from attrs import evolve

from kafka_partition_events.events.event_json import encode_time
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.alert_board import Board
from kafka_partition_events.observe.alerts import BLIND, Alert
from kafka_partition_events.outbox import DeliveryError, DeliveryStats
from kafka_partition_events.outbox.delivery import State
from kafka_partition_events_listeners.webhook.client import Target, Way

INTERVALS: Final = 4
"""How many intervals ahead an alert ends: as many as Prometheus takes. Three posts in a row may fail."""

_PATH: Final = "/api/v2/alerts"
_INEXACT: Final = timedelta(seconds=5)
"""By how much clocks may differ without being corrected: dates are not exact."""
_CHECK_S: Final = 0.5
_CLOSE_S: Final = 5.0
_FIRST_DELAY_S: Final = 1.0

_log = get_logger(__name__)

Key = frozenset[tuple[str, str]]


class Due:
    """What is to be posted to one Alertmanager, and when. No I/O; for one thread."""

    def __init__(self, repeat_interval: float, settle: float) -> None:
        """Make it; nothing has been posted yet.

        Args:
            repeat_interval: Seconds after which what fires is posted again.
            settle: Seconds for which something must be over before its end is posted.
        """
        self.repeat, self._settle = repeat_interval, settle
        self._posted: dict[Key, tuple[Alert, float]] = {}  # and when it was posted last
        self._next = -math.inf  # when there is a post in any case
        self._over: dict[Key, float] = {}

    def at(self, board: Board, now: float) -> tuple[Sequence[Alert], Sequence[Alert]] | None:
        """Return what fires and what has ended, if that is to be posted now; else None.

        Where nothing fires that is posted, too: that an Alertmanager can't be reached is found before it is
        needed.
        """
        fires = {_key(alert): alert for alert in board.alerts}
        self._over = {
            key: self._over.get(key, now)
            for key, (alert, _) in self._posted.items()
            if key not in fires and board.complete and alert.labels["alertname"] != BLIND
        }
        ended = [self._posted[key][0] for key, since in self._over.items() if now - since >= self._settle]
        due = any(self._is_due(key, alert, now) for key, alert in fires.items())
        if not (ended or due or now >= self._next):
            return None
        return tuple(fires.values()), tuple(ended)

    def _is_due(self, key: Key, alert: Alert, now: float) -> bool:
        posted, at = self._posted.get(key, (None, now))
        return posted != alert or now - at >= self.repeat

    def posted(self, fires: Sequence[Alert], ended: Sequence[Alert], now: float) -> None:
        """Note that Alertmanager has them."""
        gone = {_key(alert) for alert in ended}
        self._posted = {key: posted for key, posted in self._posted.items() if key not in gone}
        self._posted.update((_key(alert), (alert, now)) for alert in fires)
        self._next = now + self.repeat

    def failed(self) -> None:
        """Note that a post failed: the next one is due at once, also if nothing fires by then."""
        self._next = -math.inf


def _key(alert: Alert) -> Key:
    return frozenset(alert.labels.items())


class AlertmanagerSink:
    """Posts what fires to one or several Alertmanagers, from `start` to `close`.

    Each gets everything, as Prometheus does it: they agree among themselves who notifies.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        name: str,
        read: Callable[[], Board],
        repeat_interval: float,
        settle: float,
        way: Way,
        clock: Clock,
    ) -> None:
        """Make it; nothing is connected to yet.

        Args:
            urls: Where the Alertmanagers are, such as ``http://alertmanager:9093``, with their prefix if any.
            name: How configuration, metrics and logs call it.
            read: Returns what fires now; called from several threads.
            repeat_interval: Seconds after which what fires is posted again.
            settle: The observer's interval, in seconds.
            way: How they are reached.
            clock: Gives the time.

        Raises:
            ConfigurationError: a URL or the way is of no use.
        """
        self.name = name
        due = partial(Due, repeat_interval, settle)
        self._posters = [
            _Poster(Target(url.rstrip("/").removesuffix(_PATH) + _PATH, way), due(), name, read, clock)
            for url in urls
        ]

    def start(self) -> None:
        """Begin to post. Idempotent."""
        for poster in self._posters:
            poster.start()

    def close(self) -> None:
        """Stop; what fires ends by itself unless another observer goes on posting it. Idempotent."""
        for poster in self._posters:
            poster.stop()
        for poster in self._posters:
            poster.join()

    def ended(self) -> Iterator[str]:
        """Yield the sink's name for each thread that has ended and should not have."""
        return (self.name for poster in self._posters if not poster.alive)

    @property
    def stats(self) -> DeliveryStats:
        """What became of posts so far; the state is the worst of all Alertmanagers."""
        found = [poster.stats for poster in self._posters]
        failures = sum((Counter(each.failures) for each in found), Counter[str]())
        state: State = next((each.state for each in found if each.state != "idle"), "idle")
        return DeliveryStats(state=state, delivered=sum(each.delivered for each in found), failures=failures)


class _Poster:
    """Posts to one Alertmanager on a thread of its own: one that hangs holds up none of the others."""

    def __init__(self, target: Target, due: Due, name: str, read: Callable[[], Board], clock: Clock) -> None:
        self._target, self._due, self._name, self._read, self._clock = target, due, name, read, clock
        self._condition = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None  # none before it runs
        self.stats = DeliveryStats()

    @property
    def alive(self) -> bool:
        return self._thread is None or self._stopping or self._thread.is_alive()

    def start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"kpe-alerts-{self._name}", daemon=True)
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        with self._condition:
            self._stopping = True
            self._condition.notify_all()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        with contextlib.closing(self._target):
            self._post_until_stopped()

    def _post_until_stopped(self) -> None:
        failures = 0
        while not self._stopping:
            try:
                self._step()
                if failures:
                    _log.warning("alertmanager_has_alerts_again", sink=self._name, url=self._target.shown)
                failures, delay = 0, _CHECK_S
            except Exception as error:  # noqa: BLE001 - a bug must not end the thread: no one would be paged
                failures += 1
                delay = min(_FIRST_DELAY_S * 2.0 ** min(failures - 1, 8), self._due.repeat)
                delay *= 0.5 + random.random() / 2
                self._note(error, failures)
            with self._condition:
                if not self._stopping:
                    self._clock.wait(self._condition, delay)

    def _note(self, error: Exception, failures: int) -> None:
        reason = error.reason if isinstance(error, DeliveryError) else "error"
        self._due.failed()
        counted = {**self.stats.failures, reason: self.stats.failures.get(reason, 0) + 1}
        self.stats = evolve(self.stats, state="backing_off", failures=counted)
        if failures == 1:
            _log.error("alertmanager_misses_alerts", sink=self._name, error=str(error), reason=reason)

    def _step(self) -> None:
        found = self._due.at(self._read(), self._clock.monotonic())
        if found is None:
            return
        fires, ended = found
        # Asked each time: this clock may have been set since the last answer.
        now = self._clock.now() + self._difference(self._target.date("/"))
        ends_at = now + timedelta(seconds=INTERVALS * self._due.repeat)
        body = json.dumps(
            [
                *(document(alert, now, ends_at) for alert in fires),
                # An end that is still to come is none, and what Alertmanager has then stays in force.
                *(document(alert, now, now - 2 * _INEXACT) for alert in ended),
            ]
        )
        response = self._target.post(body.encode(), {"content-type": "application/json"})
        if not response.is_success:
            raise DeliveryError(
                f"{self._target.shown} answered {response.status_code}", reason=f"http_{response.status_code}"
            )
        self._due.posted(fires, ended, self._clock.monotonic())
        taken = self.stats.delivered + len(fires) + len(ended)
        self.stats = evolve(self.stats, state="idle", delivered=taken)

    def _difference(self, date: str | None) -> timedelta:
        """Return by how much the other clock is ahead; nothing if it is not by more than `_INEXACT`."""
        try:
            theirs = parsedate_to_datetime(date or "").replace(tzinfo=UTC)
        except ValueError:
            return timedelta()
        ahead = theirs - self._clock.now()
        return ahead if abs(ahead) > _INEXACT else timedelta()


def document(alert: Alert, now: datetime, ends_at: datetime) -> Mapping[str, Any]:
    """Return an alert as API v2 has it."""
    began = min(now - timedelta(seconds=alert.stood), ends_at)
    return {
        "labels": alert.labels,
        "annotations": alert.annotations,
        "generatorURL": alert.annotations["runbook_url"],
        "startsAt": encode_time(began),
        "endsAt": encode_time(ends_at),
    }
