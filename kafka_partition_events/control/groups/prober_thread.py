"""Lets a prober look now and then, on a thread of its own: it takes seconds, and commands do not wait."""

import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from attrs import evolve

from kafka_partition_events.control.groups.state import Probe
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.log import get_logger

if TYPE_CHECKING:
    from kafka_partition_events.control.groups.prober import GroupProber

LOOK_S: Final = 5.0
"""Seconds between two looks."""

_log = get_logger(__name__)


class Probing:
    """Lets a prober look every few seconds as long as there are open changes. One thread at a time.

    Attributes:
        probe: What was seen last; empty if no broker answers.
    """

    def __init__(self, prober: "GroupProber") -> None:
        """Take over the prober; nothing is asked before `watch`."""
        self.probe = Probe()
        self._prober = prober
        self._thread = ThreadPoolExecutor(1, "kpe-prober")
        self._look: Future[Probe] | None = None
        self._asked: tuple[Change, ...] = ()
        self._seen = frozenset[tuple[str, State]]()
        self._due = 0.0
        self._failing = False

    def watch(self, changes: Collection[Change], now_ms: int, limit: float = 0.0) -> None:
        """Take what was seen, and look at these open changes; at once if one is new, or has another state.

        Args:
            changes: The open changes.
            now_ms: The time now by the brokers' clock.
            limit: For how many seconds to wait for the answer.
        """
        self._take()
        due = time.monotonic() >= self._due or not _states(changes) <= self._seen
        if self._look is None and due and (changes or self._seen):
            self._asked = tuple(changes)
            self._look = self._thread.submit(self._prober.look, self._asked, now_ms)
        if limit and self._look is not None:
            wait([self._look], limit)
            self._take()

    def close(self) -> None:
        """Stop looking; the prober is closed when its look is over."""
        self._thread.submit(self._prober.close)
        self._thread.shutdown(wait=False)

    def _take(self) -> None:
        if self._look is None or not self._look.done():
            return
        look, self._look, self._due = self._look, None, time.monotonic() + LOOK_S
        self._seen = _states(self._asked)
        error = look.exception()
        if error is not None and not self._failing:  # whatever it is, changes go on without it
            _log.warning("prober_failed", error=str(error))
        self._failing = error is not None
        happened = frozenset(change.change_id for change in self._asked if change.state.happened)
        self.probe = evolve(Probe() if error else look.result(), after=happened)


def _states(changes: Collection[Change]) -> frozenset[tuple[str, State]]:
    return frozenset((change.change_id, change.state) for change in changes)
