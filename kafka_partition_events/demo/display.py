"""Show the demo's progress: a live picture on a terminal, lines with the time elsewhere."""

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kafka_partition_events.cli.common.event_text import table_line
from kafka_partition_events.demo.ledger import Totals
from kafka_partition_events.metadata.events import Event

_EVENTS_KEPT = 100
_OTHER_LINES = 8  # of the live picture: the table of counts, empty lines, the cursor
_COUNTS_EVERY_S = 4.0

Counts = Callable[[], list[tuple[str, Totals]]]
"""What has been counted so far, by producer."""


class Display(Protocol):
    """What the demo tells while it runs. Thread-safe."""

    def phase(self, title: str) -> None:
        """Begin a phase."""

    def line(self, text: str) -> None:
        """Tell something by the way."""

    def event(self, event: Event) -> None:
        """Show an event of the watcher."""

    def tick(self) -> None:
        """Show the counts, if it is time to."""

    def end(self) -> None:
        """Leave the last state on the screen."""


class PlainDisplay:
    """Lines, each with the seconds since the start."""

    def __init__(self, console: Console, counts: Counts) -> None:
        self._console = console
        self._counts = counts
        self._began = time.monotonic()
        self._counted = 0.0
        self._lock = threading.Lock()

    def phase(self, title: str) -> None:
        """Begin a phase."""
        self._write(f"== {title}")

    def line(self, text: str) -> None:
        """Tell something by the way."""
        self._write(f"   {text}")

    def event(self, event: Event) -> None:
        """Show an event."""
        self._write(f"   {table_line(event, timed=False).plain}")

    def tick(self) -> None:
        """Show the counts every few seconds."""
        now = time.monotonic()
        if now - self._counted >= _COUNTS_EVERY_S:
            self._counted = now
            for name, totals in self._counts():
                self._write(f"   {name}: {in_words(totals)}")

    def end(self) -> None:
        """Do nothing: lines stay."""

    def _write(self, text: str) -> None:
        with self._lock:
            self._console.print(f"{time.monotonic() - self._began:6.1f} s  {text}", soft_wrap=True)


class LiveDisplay:
    """Phases, counts and the latest events, redrawn in place."""

    def __init__(self, console: Console, counts: Counts) -> None:
        self._console = console
        self._counts = counts
        self._phases: list[tuple[str, float]] = []
        self._ended_at: float | None = None
        self._latest: deque[Text] = deque(maxlen=_EVENTS_KEPT)
        self._live = Live(
            console=console, get_renderable=self._picture, refresh_per_second=5, redirect_stdout=False
        )
        self._live.start()

    def phase(self, title: str) -> None:
        """Begin a phase."""
        self._phases.append((title, time.monotonic()))

    def line(self, text: str) -> None:
        """Show a line among the events."""
        self._latest.append(Text(text, style="dim"))

    def event(self, event: Event) -> None:
        """Show an event."""
        line = table_line(event, timed=False)
        line.no_wrap, line.overflow = True, "ellipsis"
        self._latest.append(line)

    def tick(self) -> None:
        """Do nothing: the picture is redrawn all the time."""

    def end(self) -> None:
        """Leave the last picture on the screen."""
        self._ended_at = time.monotonic()
        self._live.stop()

    def _picture(self) -> RenderableType:
        # rich cuts off at the bottom what does not fit, and the newest events stand there.
        room = max(1, self._console.height - len(self._phases) - _OTHER_LINES)
        latest = list(self._latest)[-room:]
        return Group(self._phase_table(), Text(), self._count_table(), Text(), *latest)

    def _phase_table(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        starts = [began for _, began in self._phases]
        ends = [*starts[1:], self._ended_at or time.monotonic()]
        for (title, began), ended in zip(self._phases, ends, strict=False):
            running = self._ended_at is None and ended is ends[-1]
            mark = Text(">", style="yellow") if running else Text("*", style="green")
            table.add_row(mark, Text(f"{ended - began:5.1f} s", style="dim"), Text(title))
        return table

    def _count_table(self) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        table.add_column("")
        for name in ("sent", "acknowledged", "failed", "rerouted", "capped"):
            table.add_column(name, justify="right")
        for producer, totals in self._counts():
            table.add_row(producer, *figures(totals))
        return table


def figures(totals: Totals) -> tuple[str, ...]:
    """Return a line of the table."""
    numbers = (totals.sent, totals.acknowledged, totals.failed, totals.rerouted, totals.capped)
    return tuple(f"{number:,}" for number in numbers)


def in_words(totals: Totals) -> str:
    """Return the counts as a sentence."""
    return (
        f"sent {totals.sent:,}, acknowledged {totals.acknowledged:,}, failed {totals.failed:,}, "
        f"rerouted {totals.rerouted:,}, capped {totals.capped:,}"
    )


@contextlib.contextmanager
def open_display(console: Console, counts: Counts) -> Iterator[Display]:
    """Choose the display for where the output goes."""
    display: Display = LiveDisplay(console, counts) if console.is_terminal else PlainDisplay(console, counts)
    try:
        yield display
    finally:
        display.end()
        sys.stdout.flush()
