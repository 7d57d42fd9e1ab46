"""Events of the metadata in words. Pure, but for the terminal that a table line is made for.

No command has a producer, so what producers find out (who is suspected, which keys moved) comes to none.
"""

from rich.text import Text

from kafka_partition_events.legible import legible
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo

_KIND_WIDTH = max(len(cls.kind) for cls in ev.EVENT_TYPES)
_SUBJECT_WIDTH = 24

_BAD = {"partition_offline", "broker_removed", "metadata_unavailable", "metadata_stale"}
_GOOD = {"partition_online", "broker_added", "metadata_recovered"}
_NEWS = {"topic_added", "topic_removed", "topic_recreated", "partitions_added"}


def table_line(event: ev.Event, *, timed: bool = True) -> Text:
    """Return one line: time, kind, subject, what changed. Long names push the rest to the right."""
    time = f"{event.wall_time:%H:%M:%S}.{event.wall_time.microsecond // 1000:03}Z  " if timed else ""
    return styled(
        (time, "dim"),
        (f"{event.kind:<{_KIND_WIDTH}}  ", _style(event.kind)),
        (f"{subject(event):<{_SUBJECT_WIDTH}}  ", "bold"),
        (describe(event), ""),
    )


def styled(*parts: tuple[str, str]) -> Text:
    """Return a line of parts, each a text and its style."""
    return Text.assemble(*((legible(text), style) for text, style in parts))


def _style(kind: str) -> str:
    if kind in _BAD:
        return "red"
    if kind in _GOOD:
        return "green"
    return "cyan" if kind in _NEWS else "yellow"


def subject(event: ev.Event) -> str:
    """Return what an event is about: a partition, a topic, a broker or the whole cluster."""
    match event:
        case ev.PartitionEvent(topic=topic, partition=partition):
            return f"{topic}-{partition}"
        case ev.TopicEvent(topic=topic):
            return topic
        case ev.BrokerAdded(new=node) | ev.BrokerChanged(new=node) | ev.BrokerRemoved(old=node):
            return f"broker {node.id}"
        case ev.MetadataRejected(topic=str(topic), partition=partition):
            return topic if partition is None else f"{topic}-{partition}"
        case _:
            return "cluster"


def describe(event: ev.Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one line for each kind of event
    """Return what changed, in words."""
    match event:
        case ev.TopicAdded(new=new):
            return shape(new)
        case ev.TopicRemoved(old=old):
            return f"had {shape(old)}"
        case ev.TopicRecreated(old=old, new=new):
            proof = "known by its smaller size" if event.inferred else "new topic id"
            return f"{_growth(old, new)}, {proof}"
        case ev.TopicIdLearned(new=new):
            return f"topic id {new.topic_id}"
        case ev.PartitionsAdded(old=old, new=new):
            return _growth(old, new)
        case ev.PartitionOffline(old=old, new=new) if old == new:
            return f"no leader; replicas on {ids(new.replicas)}"
        case ev.LeaderChanged(old=old, new=new) if not event.moved:
            return f"leader {_leader(new)} elected again, epoch {old.leader_epoch} -> {new.leader_epoch}"
        case ev.PartitionOffline(old=old, new=new) | ev.PartitionOnline(old=old, new=new):
            return f"leader {_leader(old)} -> {_leader(new)}"
        case ev.LeaderChanged(old=old, new=new):
            return f"leader {_leader(old)} -> {_leader(new)}"
        case ev.IsrChanged(old=old, new=new):
            return f"in sync {ids(old.isr)} -> {ids(new.isr)} of {ids(new.replicas)}"
        case ev.ReplicasChanged(old=old, new=new):
            return f"replicas {ids(old.replicas)} -> {ids(new.replicas)}"
        case ev.BrokerAdded(new=node):
            return _address(node)
        case ev.BrokerRemoved(old=node):
            return f"was {_address(node)}"
        case ev.BrokerChanged(old=before, new=node):
            return f"{_address(before)} -> {_address(node)}"
        case ev.MetadataUnavailable(error=error):
            return " ".join(error.split())
        case ev.MetadataRecovered():
            attempts = counted(event.attempts, "failed attempt")
            return f"answers again after {attempts}, {event.blind_s:.1f} s blind"
        case ev.MetadataStale():
            return f"last good answer {event.age_s:.0f} s ago, limit {event.limit_s:.0f} s"
        case ev.MetadataRejected():
            return f"{event.reason}: keeps {event.kept}, was offered {event.offered} (strike {event.strike})"
        case ev.Resync():
            return (
                f"{counted(event.dropped, 'event')} not shown (output too slow); now {totals(event.cluster)}"
            )
        case _:
            return ""


def totals(cluster: Cluster) -> str:
    """Return a cluster's size in words."""
    topics = cluster.by_topic.values()
    offline = sum(not p.online for info in topics for p in info.partitions)
    return ", ".join(
        (
            counted(len(cluster.nodes), "broker"),
            counted(len(topics), "topic"),
            counted(sum(len(info.partitions) for info in topics), "partition"),
            f"{offline} offline",
        )
    )


def shape(info: TopicInfo) -> str:
    """Return a topic's size in words."""
    factors = sorted({len(p.replicas) for p in info.partitions})
    words = counted(len(info.partitions), "partition")
    if factors and factors != [0]:
        words += f", replication factor {'/'.join(map(str, factors))}"
    return words


def ids(numbers: tuple[int, ...]) -> str:
    """Return broker ids as text."""
    return ",".join(map(str, numbers)) or "none"


def _growth(old: TopicInfo, new: TopicInfo) -> str:
    return f"{len(old.partitions)} -> {counted(len(new.partitions), 'partition')}"


def _leader(info: PartitionInfo) -> str:
    return "none" if info.leader is None else str(info.leader)


def _address(node: Node) -> str:
    rack = f", rack {node.rack}" if node.rack else ""
    return f"{node.host}:{node.port}{rack}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 partition``, ``12 partitions``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def lasted(seconds: float) -> str:
    """Return ``5.2 s``, ``3 min 12 s`` or ``2 h 5 min``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
