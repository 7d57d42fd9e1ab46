"""The diff of any two snapshots."""

from attrs import evolve
from hypothesis import given

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster, TopicInfo
from kafka_partition_events.metadata.diff import changed_partitions, diff
from tests.property.worlds import snapshots
from tests.replay import apply


def section(event: ev.Event, old: Cluster) -> int:
    """Return 0 for new and changed brokers, 1 to 3 for removed, kept and new topics, 4 for lost brokers."""
    match event:
        case ev.BrokerAdded() | ev.BrokerChanged():
            return 0
        case ev.TopicRemoved():
            return 1
        case ev.BrokerRemoved():
            return 4
        case ev.TopicEvent(topic=topic):
            return 2 if topic in old.by_topic else 3
    raise AssertionError(event)


@given(snapshots(), snapshots())
def test_applied_to_the_old_it_gives_the_new(old: Cluster, new: Cluster) -> None:
    result = apply(old, diff(old, new))
    assert result == new
    if old != new:
        assert (result.generation, result.cluster_id) == (new.generation, new.cluster_id)


@given(snapshots())
def test_of_the_same_it_is_empty(cluster: Cluster) -> None:
    again = Cluster(
        nodes=cluster.nodes,
        by_topic={n: TopicInfo(n, t.partitions, t.topic_id) for n, t in cluster.by_topic.items()},
    )
    assert diff(cluster, cluster) == ()
    assert diff(cluster, again) == ()
    assert diff(cluster, apply(cluster, ())) == ()


@given(snapshots(), snapshots())
def test_its_order_depends_on_nothing_but_the_snapshots(old: Cluster, new: Cluster) -> None:
    def shuffled(cluster: Cluster) -> Cluster:
        nodes, topics = list(cluster.nodes.values()), list(cluster.by_topic.values())
        return evolve(cluster, nodes=nodes[::-1], by_topic=topics[::-1])

    events = diff(old, new)
    assert events == diff(shuffled(old), shuffled(new))
    sections = [section(event, old) for event in events]
    assert sections == sorted(sections)
    for number in range(5):
        names = [
            event.topic if isinstance(event, ev.TopicEvent) else (event.old if number == 4 else event.new).id  # type: ignore[attr-defined]
            for event, at in zip(events, sections, strict=True)
            if at == number
        ]
        assert names == sorted(names)


@given(snapshots(), snapshots())
def test_its_events_are_numbered_and_marked(old: Cluster, new: Cluster) -> None:
    events = diff(old, new, first_sequence=7, observed_at=3.0, initial=True)
    assert [e.sequence for e in events] == list(range(7, 7 + len(events)))
    assert all(e.generation == new.generation and e.initial and e.observed_at == 3.0 for e in events)


@given(snapshots(), snapshots())
def test_kip_34s_map_is_what_differs(old: Cluster, new: Cluster) -> None:
    changed = changed_partitions(diff(old, new))
    for info in new.by_topic.values():
        before = old.by_topic.get(info.name)
        recreated = before is not None and (
            len(info.partitions) < len(before.partitions)
            or (before.topic_id is not None and info.topic_id != before.topic_id)
        )
        for p in info.partitions:
            assert (p.tp in changed) == (recreated or old.partition(p.tp) != p)
    assert all(new.partition(tp) == p for tp, p in changed.items())


@given(snapshots())
def test_every_outage_has_a_beginning(cluster: Cluster) -> None:
    offline = {(e.topic, e.partition) for e in diff(EMPTY, cluster) if isinstance(e, ev.PartitionOffline)}
    assert offline == {p.tp for info in cluster.by_topic.values() for p in info.partitions if not p.online}
