"""A poller that begins with a stored snapshot: what changed while nobody looked is told as a change."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from structlog.testing import capture_logs

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.listeners import to_cloudevent
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import ScriptedSource, cluster_of, observe
from tests.poller_kit import BROKERS, DOWN, Pollers, Table
from tests.property.worlds import snapshots
from tests.replay import apply

BLIND_S = 3600.0
Resumed = Callable[..., MetadataPoller]


@pytest.fixture
def stored_at(clock: ManualClock) -> datetime:
    return clock.now() - timedelta(seconds=BLIND_S)


@pytest.fixture
def resumed(clock: ManualClock, stored_at: datetime) -> Iterator[Resumed]:
    """Make a poller that resumes from a snapshot of an hour ago, with the answers that it gets now."""
    with closing(Pollers(clock)) as pollers:
        yield lambda stored, *answers: pollers(*answers, resume=(stored, stored_at))


def stored(generation: int = 7, **topics: Any) -> Cluster:
    return cluster_of(topics, brokers=BROKERS, generation=generation)


def answer(**topics: Any) -> Observation:
    return observe(topics, brokers=BROKERS)


def test_a_snapshot_that_was_made_by_hand_is_resumed_like_any_other(resumed: Resumed) -> None:
    made = cluster_of({"t": [1, 2]}, brokers=BROKERS, generation=0)
    _, changed = resumed(made, observe({"t": [2, 2]}, brokers=BROKERS)).poll_once()
    assert not changed.initial


def test_an_answer_of_another_cluster_makes_the_poller_start_afresh(resumed: Resumed) -> None:
    other = evolve(stored(orders=[1]), cluster_id="another")
    poller = resumed(other, answer(payments=[1]))
    with capture_logs() as logs:
        events = poller.poll_once()
    assert [e.kind for e in events] == ["broker_added"] * 3 + ["topic_added"]
    assert {(e.initial, e.previous_at) for e in events} == {(True, None)}
    assert poller.cluster is not None
    assert poller.cluster.generation == 1
    (line,) = logs
    assert (line["event"], line["stored"]) == ("stored_snapshot_ignored", "another")


def test_a_doubt_that_went_away_widens_nothing(clock: ManualClock) -> None:
    both = answer(orders=[1], back=[1])
    source = ScriptedSource(both, answer(orders=[1]), both, answer(orders=[1], back=[2]))
    poller = MetadataPoller(source, clock=clock)
    for _ in range(3):
        clock.advance(20)
        looked = clock.now()
        poller.poll_once()
    clock.advance(20)
    (moved,) = poller.poll_once()
    assert moved.previous_at == looked
    poller.close()


def test_no_record_is_routed_by_what_is_stored(resumed: Resumed) -> None:
    poller = resumed(stored(orders=[1]), DOWN, answer(orders=[1]))
    table = Table()
    poller.register(table)
    poller.poll_once()
    assert table.adopted == [None]
    poller.poll_once()
    assert table.adopted == [None, poller.cluster], "also if the answer equals it"


class TestConfiguration:
    def test_a_time_without_a_zone_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="aware"):
            MetadataPoller(ScriptedSource(DOWN), resume=(cluster_of(), datetime(2026, 11, 27)))  # noqa: DTZ001

    def test_a_clock_that_was_set_back_makes_no_negative_blindness(
        self, clock: ManualClock, stored_at: datetime
    ) -> None:
        ahead = clock.now() + timedelta(seconds=5)
        source = ScriptedSource(answer(orders=[1]))
        poller = MetadataPoller(source, clock=clock, resume=(stored(orders=[1]), ahead))
        (recovered,) = poller.poll_once()
        assert isinstance(recovered, ev.MetadataRecovered)
        assert recovered.blind_s == 0
        poller.close()


# -- beside a poller that never died -----------------------------------------------------------------------

worlds = snapshots().filter(lambda cluster: bool(cluster.nodes))
"""What a cluster can be; an answer without a broker is never believed."""


def saying(cluster: Cluster) -> Observation:
    return observe(dict(cluster.by_topic), cluster.nodes.values())


def identified(cluster: Cluster, word: str) -> Cluster:
    topics = {name: evolve(info, topic_id=f"{name} {word}") for name, info in cluster.by_topic.items()}
    nodes = [evolve(node, rack=node.rack or word) for node in cluster.nodes.values()]
    return evolve(cluster, by_topic=topics, nodes=nodes)


def polled(poller: MetadataPoller, clock: ManualClock, times: int) -> list[ev.Event]:
    """Poll so often, and for so long, that the gate makes up its mind about everything."""
    events: list[ev.Event] = []
    for _ in range(times):
        events += poller.poll_once()
        clock.advance(20)
    return events


@given(worlds, worlds)
def test_tells_just_what_one_that_never_died_would_have_told(a: Cluster, b: Cluster) -> None:
    clock, later = ManualClock(), ManualClock(start=3600)
    alive = MetadataPoller(ScriptedSource(saying(a), saying(b)), clock=clock)
    alive.poll_once()
    before = alive.cluster
    assert before is not None
    resumed = MetadataPoller(ScriptedSource(saying(b)), clock=later, resume=(before, clock.now()))
    lived = polled(alive, clock, 8)
    _, *found = polled(resumed, later, 8)

    assert apply(before, found) == resumed.cluster == alive.cluster
    assert [type(e) for e in found] == [type(e) for e in lived]
    assert [e.initial for e in found] == [False] * len(found)
    for ours, theirs in zip(map(to_cloudevent, found), map(to_cloudevent, lived), strict=True):
        data: Any = ours.get_data()
        if data["identity"] == "transition":
            assert ours.get_id() == theirs.get_id()
    alive.close()
    resumed.close()


@given(worlds, worlds)
def test_its_changes_lead_from_what_was_stored_to_what_is(a: Cluster, b: Cluster) -> None:
    # Else the gate would keep epochs, partitions and racks.
    a, b = identified(a, "before"), identified(b, "after")
    clock = ManualClock()
    poller = MetadataPoller(ScriptedSource(saying(b)), clock=clock, resume=(a, clock.now()))
    assert apply(a, polled(poller, clock, 4)) == poller.cluster == b
    poller.close()
