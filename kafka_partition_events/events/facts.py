"""What an event says, as plain JSON-able values: subject, key, before and after, and what identifies it.

Pure, and free of any CloudEvents library, so that webhooks and logs can say the same.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict, cast

from attrs import field, frozen

from kafka_partition_events.events.event_json import encode, encode_time
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Node, PartitionInfo, TopicInfo, TopicPartition
from kafka_partition_events.ranges import ranges

MAX_LISTED = 5_000
"""Partitions of one event whose leaders are listed: round robin defeats ranges, 5,000 ids take 25 kB, and
CloudEvents promises transport for 64 KiB only."""

_ELECTIONS: Final = (ev.PartitionOffline, ev.PartitionOnline, ev.LeaderChanged)


@frozen(kw_only=True)
class Facts:
    """What one event says.

    Attributes:
        subject: What the event is about, for instance ``topic/orders/0-2``; None for the whole cluster.
        topic: The topic's name; None when the event is about no single topic.
        data: The part of the payload that is particular to the event.
        transition: What identifies the state transition itself, wherever and whenever it is seen; None
            when nothing in the metadata does.
    """

    subject: str | None = None
    topic: str | None = None
    data: Mapping[str, Any] = field(factory=dict)
    transition: tuple[str | int, ...] | None = None


def facts_of(event: ev.Event) -> Facts:
    """Return what the event says.

    Args:
        event: Any event; of a class unknown here only the common fields are returned.
    """
    match event:
        case ev.TopicEvent():
            return _topic_facts(event)
        case ev.BrokerAdded() | ev.BrokerRemoved() | ev.BrokerChanged():
            return _broker_facts(getattr(event, "old", None), getattr(event, "new", None))
        case ev.BrokerSuspected() | ev.BrokerCleared() | ev.RecordsRescued():
            return _delivery_facts(event)
        case ev.MetadataRejected(topic=topic, partition=partition):
            data = _named(event) | {"partitions": None if partition is None else str(partition)}
            return Facts(subject=None if topic is None else f"topic/{topic}", topic=topic, data=data)
        case ev.ClusterSummary():
            return _summary_facts(event)
        case _:
            return Facts(data=_named(event))


_NAMED: Final[dict[type[ev.Event], tuple[str, ...]]] = {
    ev.BrokerSuspected: (
        "broker", "role", "reason", "outstanding", "silence_ms", "usual_ms", "partitioner"
    ),
    ev.BrokerCleared: ("broker", "reason", "suspected_ms", "probes", "usual_ms", "partitioner"),
    ev.RecordsRescued: ("broker", "copies", "withheld"),
    ev.KeysMoved: ("topic_id", "keys", "brokers"),
    ev.KeysReturned: ("topic_id", "keys", "away"),
    ev.MetadataUnavailable: ("error",),
    ev.MetadataRecovered: ("attempts", "blind_s"),
    ev.MetadataStale: ("age_s", "limit_s"),
    ev.MetadataRejected: ("reason", "kept", "offered", "strike"),
    ev.Resync: ("dropped",),
    ev.ClusterSummary: ("brokers", "topics", "partitions", "offline"),
}  # fmt: skip
"""What an event says under the names of its fields."""


def _named(event: ev.Event) -> dict[str, Any]:
    return {name: encode(getattr(event, name)) for name in _NAMED.get(type(event), ())}


# -- topics and partitions -----------------------------------------------------------------------------


def _topic_facts(event: ev.TopicEvent) -> Facts:
    match event:
        case ev.PartitionEvent():
            return _partition_facts(event)
        case ev.CapReached() | ev.CapLifted():
            return _cap_facts(event)
        case ev.KeysMoved() | ev.KeysReturned():  # of one producer: another one's keys may go elsewhere
            return _about(event, _named(event))
        case ev.PartitionsAdded():
            return _growth_facts(event)
        case _:
            return _whole_topic_facts(event)


_Transition = tuple[str | int, ...] | None


def _about(
    event: ev.TopicEvent, data: Mapping[str, Any], transition: _Transition = None, partitions: str = ""
) -> Facts:
    """Return the facts of a topic, or of some partitions of it."""
    subject = f"topic/{event.topic}/{partitions}" if partitions else f"topic/{event.topic}"
    return Facts(subject=subject, topic=event.topic, data=data, transition=transition)


def _whole_topic_facts(event: ev.TopicEvent) -> Facts:
    old: TopicInfo | None = getattr(event, "old", None)
    new: TopicInfo | None = getattr(event, "new", None)
    current = new or old
    if current is None:  # an event of the user's own
        return _about(event, {})
    after = None if new is None else _counted(new, new.partitions)
    transition = _proved(current.topic_id)
    if isinstance(event, ev.TopicRecreated):
        after = {**_counted(event.new, event.new.partitions), "inferred": event.inferred}
        transition = _proved(event.old.topic_id, event.new.topic_id)
    data = {
        "topic_id": current.topic_id,
        "partitions": ranges(range(len(current.partitions))),
        "before": None if old is None else _counted(old),
        "after": after,
    }
    return _about(event, data, transition)


def _growth_facts(event: ev.PartitionsAdded) -> Facts:
    added = ranges(p.partition for p in event.added)
    old, new = event.old, event.new
    data = {
        "topic_id": new.topic_id,
        "partitions": added,
        "before": _counted(old),
        "after": _counted(new, event.added),
    }
    transition = _proved(new.topic_id, len(old.partitions), len(new.partitions))
    return _about(event, data, transition, added)


def _partition_facts(event: ev.PartitionEvent) -> Facts:
    born = event.old is event.new or event.old == event.new
    # A leader epoch numbers the transitions of leadership only: an ISR or a replica list can come back to
    # what it was within one epoch, so these have no identity of their own. Nor has a leader that is unlisted,
    # listed and unlisted again at one epoch.
    begun = isinstance(event, _ELECTIONS) and (born or event.old.leader_epoch != event.new.leader_epoch)
    epoch = event.new.leader_epoch if begun else None
    data = {
        "topic_id": event.topic_id,
        "partitions": str(event.partition),
        "before": None if born else _partition(event.old),
        "after": _partition(event.new),
    }
    return _about(event, data, _proved(event.topic_id, event.partition, epoch), str(event.partition))


def _cap_facts(event: ev.CapReached | ev.CapLifted) -> Facts:
    concerned = set(range(event.partitions))
    after: dict[str, Any] = {"count": event.partitions}
    if isinstance(event, ev.CapReached):
        concerned -= set(event.admitted)  # the ones left out
        after |= {"admitted": ranges(event.admitted), "limit": event.limit}
    data = {
        "topic_id": event.topic_id,
        "partitions": ranges(concerned),
        "partitioner": event.partitioner,
        "after": after,
    }
    return _about(event, data)


def _proved(*identity: str | int | None) -> _Transition:
    return None if None in identity else cast("_Transition", identity)


def _counted(topic: TopicInfo, listed: tuple[PartitionInfo, ...] = ()) -> dict[str, Any]:
    data: dict[str, Any] = {"count": len(topic.partitions), "topic_id": topic.topic_id}
    if listed and len(listed) <= MAX_LISTED:
        data["leaders"] = _by_leader(listed)
    return data


def _by_leader(partitions: Iterable[PartitionInfo]) -> dict[str, int | None]:
    by_leader: dict[int | None, list[int]] = {}
    for p in partitions:
        by_leader.setdefault(p.leader, []).append(p.partition)
    return {ranges(ids): leader for leader, ids in by_leader.items()}


class PartitionState(TypedDict):
    """A partition as one poll found it."""

    leader: int | None
    leader_epoch: int | None
    replicas: list[int]
    isr: list[int]


def _partition(info: PartitionInfo) -> PartitionState:
    return {
        "leader": info.leader,
        "leader_epoch": info.leader_epoch,
        "replicas": list(info.replicas),
        "isr": list(info.isr),
    }


# -- brokers and the observer --------------------------------------------------------------------------


def _broker_facts(old: Node | None, new: Node | None) -> Facts:
    (id_,) = {node.id for node in (old, new) if node is not None}
    return Facts(subject=f"broker/{id_}", data={"broker": id_, "before": _node(old), "after": _node(new)})


def _node(node: Node | None) -> dict[str, Any] | None:
    return None if node is None else {"host": node.host, "port": node.port, "rack": node.rack}


def _delivery_facts(event: ev.BrokerSuspected | ev.BrokerCleared | ev.RecordsRescued) -> Facts:
    # What one producer found out by its own deliveries; another one may find otherwise. So each is an event.
    data = _named(event)
    if isinstance(event, ev.BrokerSuspected) and event.waiting:  # earlier versions do not have it
        data["waiting"] = _by_topic(event.waiting)
    return Facts(subject=None if event.broker is None else f"broker/{event.broker}", data=data)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {topic: ranges(ids) for topic, ids in by_topic.items()}


def _summary_facts(event: ev.ClusterSummary) -> Facts:
    begin, end = encode_time(event.begin), encode_time(event.end)
    return Facts(
        data={"period": {"begin": begin, "end": end}, **_named(event)},
        # Where the cluster's id is not known, those of two clusters must not be one.
        transition=None if event.cluster_id is None else (begin, end),
    )
