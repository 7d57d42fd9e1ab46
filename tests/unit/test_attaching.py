"""What a producer of any client begins with, and how it ends. No broker."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_partition_events import ConfigurationError, DefaultPartitioner, MetadataPoller
from kafka_partition_events.clients.attaching import AttachPlan
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
    plan = AttachPlan(producer, partitioner, None, "auto", "stay", poller, {}, transaction=None, acks="all")
    client, policies_over = cast("Any", SimpleNamespace()), cast("Any", None)
    _, follower = plan.begin(client, poller, lambda: ["orders"], policies_over, linger_s=0.0)
    if ends == "closed":
        follower.leave()
        follower.leave()
    else:
        del producer, plan
        assert not ended, "a finalizer only leaves a message"
        poller.poll_once()
    assert len(ended) == 1
    poller.close()


def planned(**options: Any) -> AttachPlan:
    usual = {"transaction": None, "acks": "all", "rescue": None, "standby": "auto", "keys": "stay"}
    settings = {**usual, **options}
    return AttachPlan(Producer(), DefaultPartitioner(), poller=None, poller_options={}, **settings)


@pytest.mark.parametrize(
    ("options", "further"),
    [({}, 1), ({"standby": "off"}, 0), ({"transaction": "transactional.id"}, 0), ({"acks": "1"}, 0)],
)
def test_a_further_handle_is_for_producers_that_wait_for_replicas(options: Any, further: int) -> None:
    poller, ended = MetadataPoller(ScriptedSource(THERE)), list[int]()
    detour = SimpleNamespace(end=lambda: ended.append(1))
    client, policies_over = cast("Any", SimpleNamespace(detours={1: detour})), cast("Any", None)
    plan = planned(**options)
    plan.begin(client, poller, lambda: ["orders"], policies_over, linger_s=0.0)
    assert (plan.further, len(ended)) == (further, 1 - further)
    poller.close()


@pytest.mark.parametrize(
    ("option", "given", "choices"),
    [("standby", "warm", "auto, off"), ("rescue", "always", "failed, hedge"), ("keys", "mvoe", "stay, move")],
)
def test_a_mode_that_there_is_not_is_refused(option: str, given: str, choices: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{option} must be one of {choices}, not '{given}'"):
        planned(**{option: given})


@pytest.mark.parametrize(("option", "given"), [("rescue", "failed"), ("keys", "move")])
@pytest.mark.parametrize("settings", [{"transaction": "transactional.id"}, {"acks": "0"}])
def test_what_settings_leave_no_use_is_refused(option: str, given: str, settings: dict[str, str]) -> None:
    ((name, value),) = settings.items()
    with pytest.raises(ConfigurationError, match=f"^{option}.* can't be used with .*{value}"):
        planned(**{option: given, name: value})
