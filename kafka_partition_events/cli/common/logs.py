"""The program's log: lines on stderr, warnings and worse unless more is asked for."""

import logging
import sys
from collections.abc import Collection

import structlog
from structlog.typing import EventDict, WrappedLogger

SHOWN_AS_EVENTS = frozenset({"metadata_unavailable"})
"""The poller's log lines that the output tells as events."""


def configure_logs(*, verbose: bool, told_elsewhere: Collection[str] = ()) -> None:
    """Configure structlog. The library never does; this is the application.

    Args:
        verbose: Show everything.
        told_elsewhere: Names of log events that the command shows as output of its own.
    """

    def drop_what_is_shown(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if event.get("event") in told_elsewhere and not verbose:
            raise structlog.DropEvent
        return event

    # kafka-python logs each failed connection as an error, and at debug the passwords that it is given. What
    # matters comes as an exception or an event.
    kafka_python = logging.getLogger("kafka")
    kafka_python.addHandler(logging.NullHandler())
    kafka_python.propagate = False
    structlog.configure(
        processors=[
            drop_what_is_shown,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
