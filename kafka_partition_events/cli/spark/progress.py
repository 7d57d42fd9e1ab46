"""How far a Spark job is: a line that changes on a terminal, a line for each step elsewhere. On stderr."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from kafka_partition_events.cli.common.event_text import styled
from kafka_partition_events.cli.common.output import tell
from kafka_partition_events.spark.progress import Progress, Refreshed


class Shown(Progress):
    """Shows what a pipeline tells, and tells of a refresh who wants to know."""

    def __init__(self, show: Callable[[str], None], on_refresh: Callable[[Refreshed], None] | None) -> None:
        self._show = show
        self._on_refresh = on_refresh

    def tell(self, what: str | Refreshed) -> None:
        """Show it."""
        self._show(str(what))
        if self._on_refresh is not None and isinstance(what, Refreshed):
            self._on_refresh(what)


class _Terminal(Shown):
    """Keeps what is done above a line that tells what is being done, and for how long."""

    def __init__(self, bar: Bar, on_refresh: Callable[[Refreshed], None] | None) -> None:
        super().__init__(lambda text: bar.console.print(styled((text, "dim"))), on_refresh)
        self._bar = bar
        self._task = bar.add_task("", total=None)

    def tell(self, what: str | Refreshed) -> None:
        if isinstance(what, str):
            self._bar.reset(self._task, description=what)
        else:
            super().tell(what)


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
    with Bar(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        yield _Terminal(bar, on_refresh)
