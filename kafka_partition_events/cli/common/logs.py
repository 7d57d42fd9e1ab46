"""The program's log: lines on stderr, warnings and worse unless more is asked for; as text, or as JSON."""

import json
import logging
import sys
import threading
from collections.abc import Collection
from types import TracebackType
from typing import Any, Final

import structlog
from structlog.processors import JSONRenderer, KeyValueRenderer
from structlog.typing import EventDict, Processor, WrappedLogger

from kafka_partition_events.log import AUDIT, get_logger
from kafka_partition_events.observe.settings import Log

_SHOWN_AS_EVENTS: Final = frozenset({"metadata_unavailable"})
"""The poller's log lines that the output of a command shows as events; a service has no such output."""
PROGRAM: Final = "kpe"
"""The logger of messages to people, where even these have to be JSON."""

_ALWAYS: Final = frozenset({AUDIT, PROGRAM})
_LONG_ENOUGH: Final = 4
_FIRST: Final = ("timestamp", "level", "event")


def configure_logs(*, verbose: bool, log: Log | None = None, secrets: Collection[str] = ()) -> None:
    """Configure structlog. The library never does; this is the application.

    Where JSON is wanted, everything else that Python writes to stderr becomes JSON, too: warnings, lines of
    other libraries, tracebacks of uncaught exceptions.

    Args:
        verbose: Show everything.
        log: What ``[log]`` says to a service; by default text.
        secrets: What must not stand in a line.
    """
    wanted, shown_elsewhere = log or Log(), () if log else _SHOWN_AS_EVENTS
    least = logging.DEBUG if verbose else _level(wanted.level)

    def drop(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        too_low = _level(method) < least and logger.name not in _ALWAYS
        if too_low or (event.get("event") in shown_elsewhere and not verbose):
            raise structlog.DropEvent
        return event

    # kafka-python logs each failed connection as an error, and at debug the passwords that it is given. What
    # matters comes as an exception or an event.
    kafka_python = logging.getLogger("kafka")
    kafka_python.addHandler(logging.NullHandler())
    kafka_python.propagate = False
    as_json = wanted.format == "json"
    processors: list[Processor] = [
        drop,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        *([_with_logger] if as_json else []),
        JSONRenderer(default=str, ensure_ascii=False) if as_json else KeyValueRenderer(key_order=[*_FIRST]),
        _Without(secrets),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=_Printer,
        cache_logger_on_first_use=False,
    )
    if as_json:
        _take_in_the_rest()


def in_json() -> bool:
    """Return whether stderr is to have nothing but JSON."""
    return structlog.is_configured() and any(
        isinstance(each, JSONRenderer) for each in structlog.get_config()["processors"]
    )


class _Printer(structlog.PrintLogger):
    """Prints to stderr, and knows whose lines they are."""

    def __init__(self, name: str = "", *_more: Any) -> None:
        super().__init__(sys.stderr)
        self.name = name


class _Without:
    """Takes secrets out of a line, as they are and as JSON has them."""

    def __init__(self, secrets: Collection[str]) -> None:
        long_enough = {each for each in secrets if len(each) >= _LONG_ENOUGH}
        escaped = {json.dumps(each, ensure_ascii=False)[1:-1] for each in long_enough}
        self._secrets = sorted(long_enough | escaped, key=len, reverse=True)

    def __call__(self, _logger: WrappedLogger, _method: str, line: Any) -> Any:
        """Return the line without them."""
        for secret in self._secrets:
            line = line.replace(secret, "***")
        return line


def _level(name: str) -> int:
    return logging.getLevelNamesMapping()[name.upper()]


def _with_logger(logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    first = {name: event.pop(name) for name in (*_FIRST[:2], "event") if name in event}
    return {**first, "logger": logger.name, **event}


class _LogHandler(logging.Handler):
    """Hands over what other libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else None
        say = getattr(get_logger(record.name), record.levelname.lower(), get_logger(record.name).error)
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - of a library's bad call, in which it must not raise
            text = str(record.msg)
        say(text, **({"exception": trace} if trace else {}))


def _take_in_the_rest() -> None:
    logging.basicConfig(handlers=[_LogHandler()], level=logging.WARNING, force=True)
    logging.captureWarnings(capture=True)

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = logging.Formatter().formatException((kind, error, trace))
        get_logger(PROGRAM).critical("uncaught", error=repr(error), exception=text)

    def uncaught_in_thread(of: threading.ExceptHookArgs) -> None:
        if of.exc_value is not None:
            uncaught(of.exc_type, of.exc_value, of.exc_traceback)

    sys.excepthook = uncaught
    threading.excepthook = uncaught_in_thread
