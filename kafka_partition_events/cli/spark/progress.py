"""How far a Spark job is: a line that changes on a terminal, a line for each step elsewhere. On stderr."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kafka_partition_events.cli.common.event_text import styled
from kafka_partition_events.cli.common.output import tell
from kafka_partition_events.spark.fleet.progress import BatchDone, Refreshed, told_batch, told_refresh


class Shown:
    """Shows what a pipeline tells."""

    def __init__(self, show: Callable[[str], None], on_refresh: Callable[[Refreshed], None] | None) -> None:
        self._show = show
        self._on_refresh = on_refresh

    def step(self, text: str) -> None:
        """Show what begins."""
        self._show(text)

    def batch(self, done: BatchDone) -> None:
        """Show a batch."""
        self._show(told_batch(done))

    def refreshed(self, done: Refreshed) -> None:
        """Show a refresh, and tell who wants to know."""
        self._show(told_refresh(done))
        if self._on_refresh is not None:
            self._on_refresh(done)


class _Terminal(Shown):
    """Keeps what is done above a line that tells what is being done, and for how long."""

    def __init__(self, progress: Progress, on_refresh: Callable[[Refreshed], None] | None) -> None:
        super().__init__(lambda text: progress.console.print(styled((text, "dim"))), on_refresh)
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def step(self, text: str) -> None:
        self._progress.reset(self._task, description=text)


@contextlib.contextmanager
def shown(on_refresh: Callable[[Refreshed], None] | None = None) -> Iterator[Shown]:
    """Show what a pipeline tells on stderr.

    Args:
        on_refresh: Is called with each refresh besides.
    """
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield Shown(tell, on_refresh)
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as progress:
        yield _Terminal(progress, on_refresh)
