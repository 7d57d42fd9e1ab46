"""A listener that logs every event: to structlog where the application configured it, else to `logging`."""

from typing import Any, Final

from kafka_partition_events.events.facts import facts_of
from kafka_partition_events.events.names import Severity, severity_of
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.events import Event, PartitionOffline
from kafka_partition_events.metadata.listener import PartitionChangeListener

_METHOD: Final = {
    Severity.DEBUG: "debug",
    Severity.INFO: "info",
    Severity.WARN: "warning",
    Severity.ERROR: "error",
}


class StructlogListener(PartitionChangeListener):
    """Logs each event under its ``kind``: ``log.error("partition_offline", topic="orders", ...)``.

    What merely states what a listener found (``initial``) is logged at debug level; partitions that
    it found offline keep their error. The listener never configures structlog.
    """

    def __init__(self, logger: Any = None) -> None:
        """Make a listener.

        Args:
            logger: The structlog logger to use. By default one named after this module, of structlog if that
                was configured when an event comes, else of stdlib ``logging``.
        """
        self._log = get_logger(__name__) if logger is None else logger

    def on_event(self, event: Event) -> None:
        """Log the event."""
        facts = facts_of(event)
        fields = {name: value for name, value in facts.data.items() if value is not None}
        if facts.topic is not None:
            fields["topic"] = facts.topic
        if event.initial:
            fields["initial"] = True
        log = getattr(self._log, _METHOD[_severity(event)])
        log(event.kind, cluster_id=event.cluster_id, sequence=event.sequence, **fields)


def _severity(event: Event) -> Severity:
    if event.initial and not isinstance(event, PartitionOffline):
        return Severity.DEBUG
    return severity_of(event)
