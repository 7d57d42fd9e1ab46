"""What a producer that has left, or was dropped, still says, and what it leaves behind."""

import math
import threading
from collections.abc import Callable

import pytest

from kafka_partition_events import AdaptivePartitioner, BufferBudget, MetadataPoller
from kafka_partition_events.testing.scripted import ScriptedSource, cluster_of, observe

LIMIT_S = 20.0


@pytest.mark.parametrize("is_first", ["the poller is closed", "it is dropped"])
def test_one_that_is_dropped_about_when_its_poller_is_closed_leaves(is_first: str) -> None:
    poller = MetadataPoller(ScriptedSource(observe({"t": [1]})), topics=["t"])
    left: list[int] = []
    subscription = poller.join(AdaptivePartitioner(), lambda: ["t"], left=lambda: left.append(1))
    poller.poll_once()
    steps = [poller.close, subscription.drop]
    for step in steps if is_first == "the poller is closed" else reversed(steps):
        step()
    assert left == [1]


class Interrupted(BufferBudget):
    """Runs what the collector might, while routes are compiled."""

    collector: Callable[[], None] = staticmethod(lambda: None)

    def admit(self, counts: object) -> object:  # type: ignore[override]
        Interrupted.collector()
        return super().admit(counts)  # type: ignore[arg-type]


def test_the_collector_may_drop_the_last_one_while_a_limit_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    poller = MetadataPoller(ScriptedSource(observe({"t": [1, 2, 3]})), topics=["t"])
    partitioner = AdaptivePartitioner(budget=Interrupted(max_partitions={"t": 2}))
    follower = poller.join(partitioner, lambda: ["t"])
    poller.poll_once()
    monkeypatch.setattr(Interrupted, "collector", staticmethod(lambda: follower.leave(0.0)))
    agent = threading.Thread(target=partitioner.routing.limit, args=({"t": 2},), daemon=True)
    agent.start()
    agent.join(LIMIT_S)
    assert not agent.is_alive()
    assert partitioner.routing.generation is None, "the table went with the producer"


def test_what_follows_the_routes_may_be_collected_while_it_is_called() -> None:
    class Follower:
        def drop(self) -> None:
            followers.pop(self, None)

    partitioner = AdaptivePartitioner()
    followers = {Follower(): None for _ in range(9)}
    for each in followers:
        partitioner.routing.on_renewed(each.drop)
    del each
    partitioner.apply_snapshot(cluster_of({"t": [1]}))
    assert not followers


def test_a_poller_may_be_closed_without_a_limit_of_time() -> None:
    source = ScriptedSource(observe({"t": [1]}))
    poller = MetadataPoller(source, topics=["t"])
    poller.poll_once()
    poller.close(math.inf)
    assert source.closed == 1
