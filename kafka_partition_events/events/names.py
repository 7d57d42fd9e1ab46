"""How the outside world names the events, and how grave each one is. Shared by all ready-made listeners."""

from enum import IntEnum
from typing import Final

from kafka_partition_events.metadata import events as ev


class Severity(IntEnum):
    """OpenTelemetry's severity numbers, as far as they are used here."""

    DEBUG = 5
    INFO = 9
    WARN = 13
    ERROR = 17


_TABLE: Final[dict[type[ev.Event], tuple[str, Severity]]] = {
    ev.TopicAdded: ("topic.created", Severity.INFO),
    ev.TopicRemoved: ("topic.deleted", Severity.WARN),
    ev.TopicRecreated: ("topic.recreated", Severity.ERROR),
    ev.TopicIdLearned: ("topic.identified", Severity.INFO),
    ev.PartitionsAdded: ("partitions.added", Severity.INFO),
    ev.PartitionOffline: ("partition.offline", Severity.ERROR),
    ev.PartitionOnline: ("partition.online", Severity.INFO),
    ev.LeaderChanged: ("leadership.moved", Severity.INFO),
    ev.ReplicasChanged: ("replicas.changed", Severity.INFO),
    ev.BrokerAdded: ("broker.joined", Severity.INFO),
    ev.BrokerRemoved: ("broker.left", Severity.ERROR),
    ev.BrokerChanged: ("broker.changed", Severity.INFO),
    ev.CapReached: ("cap.reached", Severity.WARN),
    ev.CapLifted: ("cap.lifted", Severity.INFO),
    ev.BrokerSuspected: ("broker.suspected", Severity.WARN),
    ev.BrokerCleared: ("broker.cleared", Severity.INFO),
    ev.RecordsRescued: ("records.rescued", Severity.WARN),
    ev.KeysMoved: ("keys.moved", Severity.WARN),
    ev.KeysReturned: ("keys.returned", Severity.INFO),
    ev.MetadataUnavailable: ("metadata.unavailable", Severity.WARN),
    ev.MetadataRecovered: ("metadata.recovered", Severity.INFO),
    ev.MetadataStale: ("metadata.stale", Severity.ERROR),
    ev.MetadataRejected: ("metadata.rejected", Severity.WARN),
    ev.Resync: ("observer.resync", Severity.WARN),
    ev.ClusterSummary: ("cluster.summary", Severity.DEBUG),
}

_ISR_SHRUNK: Final = "isr.shrunk"
_ISR_EXPANDED: Final = "isr.expanded"

NAMES: Final = frozenset(name for name, _ in _TABLE.values()) | {_ISR_SHRUNK, _ISR_EXPANDED}
"""Every name."""


def name_of(event: ev.Event) -> str:
    """Return the dotted name; an event of a later version, or of the user, is named after its ``kind``."""
    if isinstance(event, ev.IsrChanged):
        return _ISR_SHRUNK if _shrank(event) else _ISR_EXPANDED
    entry = _TABLE.get(type(event))
    return event.kind.replace("_", ".") if entry is None else entry[0]


def schema_of(name: str) -> str | None:
    """Return the URN of the JSON Schema of an event's data (see `kafka_partition_events.assets`).

    An event of the user's own has none.
    """
    return f"urn:kpe:schema:{name}:1" if name in NAMES else None


def severity_of(event: ev.Event) -> Severity:
    """Return how grave the event is; an unknown one is for information."""
    if isinstance(event, ev.IsrChanged):
        return Severity.WARN if _shrank(event) else Severity.INFO
    entry = _TABLE.get(type(event))
    return Severity.INFO if entry is None else entry[1]


def _shrank(event: ev.IsrChanged) -> bool:
    """Return whether a replica fell out of sync. Every listener asks, 6,000 times a broker loss."""
    return not set(event.new.isr).issuperset(event.old.isr)


_CHURN: Final = frozenset({
    "leadership.moved", "replicas.changed", _ISR_SHRUNK, _ISR_EXPANDED,
    "cluster.summary",
})  # fmt: skip


def is_churn(name: str) -> bool:
    """Return whether a name is of what can be spared first.

    That is what comes by the thousand when a broker restarts, and what comes again in some minutes.
    """
    return name in _CHURN
