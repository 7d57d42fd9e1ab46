"""Where the library's log lines go: to the application's structlog if it has one, else to stdlib ``logging``.

structlog that is not configured prints to standard output, which belongs to the application. So lines go
there only after ``structlog.configure``; until then to the loggers below ``kafka_partition_events``, whose
level and handlers the application sets as it does for any library.
"""

import contextlib
import logging
import sys
from typing import Any, Final

AUDIT: Final = "kafka_partition_events.audit"
"""The logger of what operators did, and who was elected: its lines are written at any level."""


class Logger:
    """One module's logger: an event's name, and facts by name. Thread-safe; never raises.

    A line that can't be written (a closed stream, a full disk, a handler with a bug) must not end the thread
    that had something to say, nor come out of ``produce``.
    """

    def __init__(self, name: str, facts: dict[str, Any] | None = None) -> None:
        self._name = name
        self._facts = facts or {}
        self._stdlib = logging.getLogger(name)

    def bind(self, **facts: Any) -> "Logger":
        """Return a logger that adds these facts to each line."""
        return Logger(self._name, {**self._facts, **facts})

    def debug(self, event: str, **facts: Any) -> None:
        """Say what is of use only to find a fault."""
        self._say("debug", logging.DEBUG, event, facts)

    def info(self, event: str, **facts: Any) -> None:
        """Say what is as it should be."""
        self._say("info", logging.INFO, event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Say what may be a fault."""
        self._say("warning", logging.WARNING, event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Say what is a fault."""
        self._say("error", logging.ERROR, event, facts)

    def critical(self, event: str, **facts: Any) -> None:
        """Say what ends something that was to go on."""
        self._say("critical", logging.CRITICAL, event, facts)

    def _say(self, method: str, level: int, event: str, facts: dict[str, Any]) -> None:
        facts = {**self._facts, **facts}
        with contextlib.suppress(Exception):
            # Importing it takes longer than importing this library; who has not can't have configured it.
            structlog = sys.modules.get("structlog")
            is_configured = getattr(structlog, "is_configured", None)  # None: it is just being imported
            if structlog is not None and is_configured is not None and is_configured():
                getattr(structlog.get_logger(self._name), method)(event, **facts)
            elif self._stdlib.isEnabledFor(level):
                trace = facts.pop("exception", None)
                words = [event, *(f"{name}={value}" for name, value in facts.items())]
                self._stdlib.log(level, "%s", " ".join(words) + (f"\n{trace}" if trace else ""), stacklevel=3)


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    return Logger(name)
