"""What a producer of any client begins with, and how it ends. No broker."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_partition_events import DefaultPartitioner, MetadataPoller
from kafka_partition_events.clients.attaching import Plan
from kafka_partition_events.testing import ScriptedSource, observe

THERE = observe({"orders": [1, 1, 1]})


class Producer:
    """Stands for a client's producer."""


@pytest.mark.parametrize("ends", ["closed", "dropped"])
def test_a_producer_that_ends_leaves_once(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has in flight is reported no more, so the failure detector must not wait for it."""
    partitioner, producer, ended = DefaultPartitioner(), Producer(), list[int]()
    poller = MetadataPoller(ScriptedSource(THERE, THERE), (), min_interval=0.01)
    monkeypatch.setattr(partitioner.deliveries, "producer_ended", ended.append)
    plan = Plan.checked(producer, partitioner, None, "auto", "stay", poller, {}, transaction=None, acks="all")
    client, policies_over = cast("Any", SimpleNamespace()), cast("Any", None)
    _, follower, _ = plan.begin(
        producer, partitioner, client, poller, lambda: ["orders"], policies_over, linger_s=0.0
    )
    if ends == "closed":
        follower.leave()
        follower.leave()
    else:
        del producer
        assert not ended, "a finalizer only leaves a message"
        poller.poll_once()
    assert len(ended) == 1
    poller.close()
