"""Lets a prober look now and then, on a thread of its own: it takes seconds, and commands do not wait."""

import threading
import time
from collections.abc import Collection
from typing import Final

from attrs import evolve

from kafka_partition_events.control.groups.outside_view import Probe, Prober
from kafka_partition_events.control.protocol.records import Ack, Change
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.log import get_logger

LOOK_S: Final = 5.0
"""Seconds between two looks."""

_log = get_logger(__name__)


class Probing:
    """Lets a prober look every few seconds as long as there are open changes. Thread-safe."""

    def __init__(self, prober: Prober) -> None:
        """Take over the prober; nothing is asked before `watch`."""
        self._prober = prober
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._changes: tuple[Change, ...] = ()
        self._ahead_ms = 0.0
        self._seen = frozenset[tuple[str, State]]()
        self._probe = Probe()
        self._acks: list[Ack] = []
        self._failing = False

    @property
    def probe(self) -> Probe:
        """What was seen last, apart from acks; empty if nobody answers."""
        with self._condition:
            return self._probe

    def take_acks(self) -> list[Ack]:
        """Return the answers for groups that nobody has taken yet."""
        with self._condition:
            acks, self._acks = self._acks, []
            return acks

    def watch(self, changes: Collection[Change], now_ms: int) -> None:
        """Look at these open changes from now on; at once if one is new, or has come to another state."""
        with self._condition:
            self._changes = tuple(changes)
            self._ahead_ms = now_ms - 1_000 * time.monotonic()
            if self._thread is None and changes:
                self._thread = threading.Thread(target=self._run, name="kpe-prober", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def wait(self, timeout: float) -> None:
        """Wait until all changes that are watched were looked at as they are, or the seconds have passed."""
        with self._condition:
            self._condition.wait_for(lambda: not self._unseen(), timeout)

    def close(self) -> None:
        """Stop looking; the prober is closed when its look is over."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            if self._thread is None:
                self._prober.close()

    def _unseen(self) -> bool:
        return not _states(self._changes) <= self._seen

    def _run(self) -> None:
        due = 0.0
        while True:
            with self._condition:
                while not self._closed and not self._unseen() and (left := due - time.monotonic()) > 0:
                    self._condition.wait(left)
                if self._closed:
                    break
                changes, now_ms = self._changes, int(self._ahead_ms + 1_000 * time.monotonic())
            found = self._look(changes, now_ms) if changes else Probe()
            due = time.monotonic() + LOOK_S
            with self._condition:
                self._seen = _states(changes)
                happened = frozenset(change.change_id for change in changes if change.state.happened)
                self._probe = evolve(found, acks=(), after=happened)
                self._acks += found.acks
                self._condition.notify_all()
        self._prober.close()

    def _look(self, changes: tuple[Change, ...], now_ms: int) -> Probe:
        try:
            found = self._prober.look(changes, now_ms)
        except Exception as error:  # noqa: BLE001 - whatever it is, changes go on without it
            if not self._failing:
                _log.warning("prober_failed", error=str(error))
            self._failing = True
            return Probe()
        self._failing = False
        return found


def _states(changes: Collection[Change]) -> frozenset[tuple[str, State]]:
    return frozenset((change.change_id, change.state) for change in changes)
