"""What is shown meanwhile: lines, each with the seconds since the start."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from rich.console import Console

from kafka_partition_events.demo.figures import figures_of, percent
from kafka_partition_events.demo.loads import Load
from kafka_partition_events.demo.plan import SCENES, VICTIMS, Part, change
from kafka_partition_events.demo.progress import DemoProgress, Tone

_EVERY_S = 2.0
_STYLES: dict[Tone, str] = {"plain": "default", "harm": "red", "ours": "green"}


class DemoScreen:
    """Shows what happens, and every two seconds where each producer stands. Thread-safe."""

    def __init__(self, console: Console, progress: DemoProgress, cast: Sequence[Part]) -> None:
        """Make it; it writes from its `with` on."""
        self._cast = cast
        self._console = console
        self._progress = progress
        self._began = time.monotonic()
        self._loads: Sequence[Load] = ()
        self._scene: str | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="kpe-demo-lines", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._progress.on_note = self._note
        self.line("The same load on each producer; the change from the first to the last is one line:")
        for line in change(self._cast[0], self._cast[-1]):
            self.line(line)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write no more."""
        self._ended.set()
        self._thread.join(10.0)

    @contextmanager
    def showing(self, loads: Sequence[Load]) -> Iterator[None]:
        """Show how these producers stand."""
        self._loads = loads
        try:
            yield
        finally:
            with self._lock:
                self._loads = ()

    def line(self, text: str, style: str = "default") -> None:
        """Write a line."""
        with self._lock:
            self._write(text, style)

    def _write(self, text: str, style: str = "default") -> None:
        self._console.print(f"{time.monotonic() - self._began:6.1f} s  {text}", style=style, soft_wrap=True)

    def _note(self, after_s: float, text: str, tone: Tone) -> None:
        self._announce()
        self.line(f"   +{after_s:.2f} s  {text}", _STYLES[tone])

    def _announce(self) -> None:
        if (on := self._progress.scene) is None or on[0].name == self._scene:
            return
        scene = on[0]
        self._scene = scene.name
        title = scene.title.format(broker=VICTIMS.get(scene.name))
        self.line(f"== scene {SCENES.index(scene) + 1} of {len(SCENES)}: {title}. {scene.caption}", "bold")

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._announce()
            if (on := self._progress.scene) is None:
                continue
            with self._lock:  # the tapes stay open as long as they are shown
                for load in self._loads:
                    rows = load.tape.rows(load.tape.first_since(on[1]))
                    so_far = figures_of(rows, time.monotonic_ns())
                    late, longest = percent(so_far.late_share), f"{so_far.longest_ms:,.0f} ms"
                    rest = f"over 100 ms, longest {longest}, failed {so_far.failed:,}"
                    style = "green" if load.part.ours else "default"
                    self._write(f"   {load.part.title}: {late} {rest}", style)
