"""The numbers of the scene that is on, from what the producers' processes have seen so far."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import define, field, frozen

from kafka_partition_events.demo.figures import Figures, figures_of, late_by_second
from kafka_partition_events.demo.loads import Load
from kafka_partition_events.demo.plan import Part
from kafka_partition_events.demo.progress import Progress

_NS = 1_000_000_000
HISTORY_S = 20


@frozen
class Standing:
    """One producer now: its records of this scene, and the share of late ones in each of the last seconds."""

    part: Part
    figures: Figures
    history: Sequence[float | None]


@define
class Board:
    """What screens draw.

    Attributes:
        progress: What has happened.
        seconds: How long it takes in all, about.
        began: When it began (s, monotonic).
        loads: The producers; none before they are there.
    """

    progress: Progress
    seconds: float
    began: float = field(factory=time.monotonic)
    loads: Sequence[Load] = ()
    _last: Sequence[Standing] = ()
    _drawing: threading.Lock = field(factory=threading.Lock, init=False)

    @contextmanager
    def showing(self, loads: Sequence[Load]) -> Iterator[None]:
        """Show these producers; afterwards, what they came to."""
        self.loads = loads
        try:
            yield
        finally:
            self._last = self.standings()
            with self._drawing:
                self.loads = ()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    def standings(self) -> Sequence[Standing]:
        """Return where everybody stands in the scene that is on; nobody before the first."""
        if self.progress.scene is None:
            return []
        _, begin_ns = self.progress.scene
        with self._drawing:
            if not self.loads:
                return self._last
            return [_standing(load, begin_ns) for load in self.loads]


def _standing(load: Load, begin_ns: int) -> Standing:
    now = time.monotonic_ns()
    seen = list(load.tape.rows(load.tape.first_since(min(begin_ns, now - HISTORY_S * _NS))))
    of_scene = (row for row in seen if row.sent_ns >= begin_ns)
    return Standing(load.part, figures_of(of_scene, now), late_by_second(seen, now, HISTORY_S))
