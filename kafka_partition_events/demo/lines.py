"""Lines with the seconds since the start."""

import threading
import time

from rich.console import Console

from kafka_partition_events.cli.common.event_text import table_line
from kafka_partition_events.metadata.events import Event


class Lines:
    """Writes them. Thread-safe."""

    def __init__(self, console: Console) -> None:
        """Begin to count seconds."""
        self._console = console
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Write a line."""
        with self._lock:
            self._console.print(f"{time.monotonic() - self._began:6.1f} s  {text}", soft_wrap=True)

    def event(self, event: Event) -> None:
        """Write what has happened."""
        with self._lock:
            self._console.print(f"{time.monotonic() - self._began:6.1f} s    ", end="")
            self._console.print(table_line(event, timed=False), soft_wrap=True)
