"""What is shown meanwhile: a picture that is redrawn on a terminal, lines with the time elsewhere."""

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kafka_partition_events.demo.board import Board, Standing
from kafka_partition_events.demo.figures import p99_in_words, percent
from kafka_partition_events.demo.plan import SCENES, Part
from kafka_partition_events.demo.progress import Note, Tone
from kafka_partition_events.demo.words import DIFF, THE_CHANGE

_WIDEST = 110
_WIDE = 100
"""From so many columns on there is room for the history."""

_NOTES = 6
_LINES_EVERY_S = 2.0
_BARS = " ▁▂▃▄▅▆▇█"
_STYLES: dict[Tone, str] = {"plain": "default", "harm": "red", "ours": "green"}
_DOING = {"frozen": ("◐", "stalls"), "dead": ("✗", "killed"), "starting": ("◌", "starts")}


class Screen(Protocol):
    """What the demo tells while it runs. Thread-safe."""

    def line(self, text: str) -> None:
        """Tell something before the first scene."""


class Lines:
    """For pipes and logs: each line begins with the seconds since the start."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._scene: str | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="kpe-demo-lines", daemon=True)

    def __enter__(self) -> Screen:
        """Begin."""
        self._board.progress.told = self._note
        for line in (THE_CHANGE, *DIFF):
            self.line(line)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write no more."""
        self._ended.set()
        self._thread.join(10.0)

    def line(self, text: str) -> None:
        """Write a line."""
        with self._lock:
            self._console.print(f"{self._board.elapsed_s:6.1f} s  {text}", soft_wrap=True)

    def _note(self, note: Note) -> None:
        self._announce()
        self.line(f"   +{note.after_s:.2f} s  {note.text}")

    def _announce(self) -> None:
        if (on := self._board.progress.scene) is None or on[0].name == self._scene:
            return
        scene = on[0]
        self._scene = scene.name
        title = scene.title.format(broker=self._board.progress.victim(scene))
        self.line(f"== scene {SCENES.index(scene) + 1} of {len(SCENES)}: {title}. {scene.caption}")

    def _run(self) -> None:
        while not self._ended.wait(_LINES_EVERY_S):
            self._announce()
            for standing in self._board.standings() if self._board.loads else ():
                self.line(f"   {_in_words(standing)}")


def _in_words(standing: Standing) -> str:
    figures = standing.figures
    return (
        f"{standing.part.title}: {percent(figures.late_share)} over 100 ms, p99 {p99_in_words(figures)}, "
        f"stuck {figures.stuck:,}, failed {figures.failed:,}"
    )


class Picture:
    """For terminals."""

    def __init__(self, console: Console, board: Board) -> None:
        self._console = console
        self._board = board
        self._lines: list[str] = []
        self._live = Live(
            console=console, get_renderable=self.drawn, refresh_per_second=2, redirect_stdout=False
        )

    def __enter__(self) -> Screen:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last picture on the screen."""
        self._live.stop()

    def line(self, text: str) -> None:
        """Show a line among the last ones."""
        self._lines.append(text)

    def drawn(self) -> RenderableType:
        """Return the picture as it is now."""
        width = min(_WIDEST, self._console.width)
        scene = self._board.progress.scene
        parts = self._before() if scene is None else self._scene(width)
        return Panel(
            Group(self._head(), *parts), title="kpe demo", width=width, box=box.ROUNDED, padding=(0, 1)
        )

    def _head(self) -> RenderableType:
        board = self._board
        head = Table.grid(expand=True)
        head.add_column(no_wrap=True, overflow="ellipsis")
        head.add_column(justify="right", no_wrap=True)
        where = "The brokers start"
        if board.progress.scene is not None:
            scene = board.progress.scene[0]
            title = scene.title.format(broker=board.progress.victim(scene))
            where = f"Scene {SCENES.index(scene) + 1} of {len(SCENES)}  {title}"
        layout = board.progress.layout
        clock = f"RF {layout.replication}, acks=all  {_clock(board.elapsed_s)} / {_clock(board.seconds)}"
        head.add_row(Text(where, style="bold"), Text(clock, style="dim"))
        return head

    def _before(self) -> list[RenderableType]:
        change = [Text(line, style="green" if line.startswith("+") else "dim") for line in DIFF]
        notes = [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in self._lines[-_NOTES:]]
        return [Text(), Text(THE_CHANGE), *change, Text(), *notes]

    def _scene(self, width: int) -> list[RenderableType]:
        progress = self._board.progress
        assert progress.scene is not None  # noqa: S101 - asked before
        notes = [
            Text(
                f"+{note.after_s:5.2f} s  {note.text}", _STYLES[note.tone], no_wrap=True, overflow="ellipsis"
            )
            for note in progress.notes[-_NOTES:]
        ]
        rest = [Text()] * (_NOTES - len(notes))
        caption = Text(progress.scene[0].caption, style="italic")
        table = _table(self._board.standings(), wide=width >= _WIDE)
        return [
            self._brokers(), self._metadata(), Text(), table, Text(), caption, *notes, *rest,
        ]  # fmt: skip

    def _brokers(self) -> Text:
        progress = self._board.progress
        drawn = Text("brokers ")
        for broker in range(1, progress.layout.brokers + 1):
            doing = progress.doing.get(broker)
            sign, word = _DOING[doing[0]] if doing else ("●", "up")
            drawn.append(f"  {broker} {sign} {word}", style="red" if doing else "default")
        return drawn

    def _metadata(self) -> Text:
        said = self._board.progress.metadata
        brokers = self._board.progress.layout.brokers
        if said is None:
            return Text()
        fine = len(said.brokers) == brokers and not said.offline
        return Text("Kafka's metadata says:  ").append(
            said.in_words(brokers), style="bold green" if fine else "bold yellow"
        )


def _table(standings: Sequence[Standing], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("same load, same fault", no_wrap=True)
    if wide:
        table.add_column("slow records, last 20 s", no_wrap=True)
    for name in ("over 100 ms", "p99", "stuck", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    for standing in standings:
        figures = standing.figures
        numbers = [
            _harm(percent(figures.late_share), figures.late_share > 0.01, standing.part),
            _harm(p99_in_words(figures), figures.p99_ms > 100, standing.part),
            _harm(f"{figures.stuck:,}", figures.stuck > 0, standing.part),
            _harm(f"{figures.failed:,}", figures.failed > 0, standing.part),
        ]
        history = [Text("".join(map(_bar, standing.history)), style="dim")] if wide else []
        table.add_row(Text(standing.part.title), *history, *numbers)
    return table


def _harm(text: str, harmful: bool, part: Part) -> Text:
    """Return a number: red if it is harm, green if it is none and ours, else as it is."""
    return Text(text, style="red" if harmful else "green" if part.ours else "default")


def _bar(share: float | None) -> str:
    if share is None:
        return " "
    return _BARS[1 + min(7, int(share * 8))] if share else _BARS[1]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


@contextlib.contextmanager
def open_screen(console: Console, board: Board) -> Iterator[Screen]:
    """Choose the screen for where the output goes."""
    with Picture(console, board) if console.is_terminal else Lines(console, board) as screen:
        yield screen
    sys.stdout.flush()
