"""Lines with the seconds since the start."""

import threading
import time

from rich.console import Console


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
