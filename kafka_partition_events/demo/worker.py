"""A thread of a demo: it goes on until it is stopped, or fails, and then its `error` says why."""

import threading
from abc import ABC, abstractmethod
from typing import Final

END_LIMIT_S: Final = 10.0


class Worker(ABC):
    """A thread that goes on until it is stopped, or fails."""

    def __init__(self, name: str) -> None:
        """Begin."""
        self.error: BaseException | None = None
        """What ended it early; None while all is well."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"kpe-demo-{name}", daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - for the main thread, which must not wait in vain
            self.error = error

    @abstractmethod
    def _run(self) -> None:
        """Do what the thread is there for, until ``_over`` is set."""

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self._thread.join(END_LIMIT_S)
