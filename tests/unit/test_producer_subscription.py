"""How a producer waits for a topic's metadata: what is asked for, and when it gives up. No broker."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException

from kafka_partition_events import GrowthSafePartitioner, MetadataFetchError, MetadataPoller
from kafka_partition_events.clients.confluent import subscription as module
from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.subscription import ProducerSubscription
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ScriptedSource, observe

MISSING = observe({}, brokers=[1])
THERE = observe({"orders": [1, 1, 1]})


class Time:
    """Stands for the module ``time``: sleeping is all that takes any."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


class Handle:
    """Stands for a producer's handle, and for what makes it ask: it notes that, and may lag behind."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.lags = 0

    def ask_for(self, topic: str, _deadline: float) -> None:
        self.did.append(f"ask for {topic}")

    def ensure_known(self, topics: Any, _deadline: float) -> None:
        self.did.append("learn " + ",".join(topics))
        if self.lags:
            self.lags -= 1
            raise MetadataFetchError("lags behind")

    def release(self) -> None:
        pass


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "time", time)
    return time


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    handle = Handle()
    monkeypatch.setattr(module, "HandleMetadata", lambda *_: handle)
    return handle


class Rig:
    """A producer that follows a poller which plays a script, one answer for each poll."""

    def __init__(self, *script: Observation | Exception) -> None:
        self.poller = MetadataPoller(ScriptedSource(*script), (), min_interval=0.01)
        partitioner = GrowthSafePartitioner(mapping="rendezvous")
        chooser = Chooser(partitioner, {}, chunks=True)
        self.producer = cast("Any", Handle())  # following ends with it
        self.left = 0
        self.subscription = ProducerSubscription(
            self.producer, partitioner, self.poller, {}, {}, chooser, self.note_left
        )
        chooser.turn("orders")
        self.partitioner = partitioner

    def note_left(self) -> None:
        self.left += 1


@pytest.fixture
def rigs() -> Iterator[list[Rig]]:
    rigs: list[Rig] = []
    yield rigs
    for rig in rigs:
        rig.poller.close()


def rig_of(rigs: list[Rig], *script: Observation | Exception) -> Rig:
    rigs.append(Rig(*script))
    return rigs[-1]


def test_a_handle_that_lags_behind_the_poller_is_waited_for(
    time: Time, handle: Handle, rigs: list[Rig]
) -> None:
    rig = rig_of(rigs, THERE)
    rig.poller.poll_once()
    handle.did.clear()
    handle.lags = 3
    rig.subscription.wait_for_topic("orders", 10.0)
    assert handle.lags == 0
    assert handle.did[-1] == "learn orders"


def test_it_gives_up_when_the_time_is_up_and_says_why(time: Time, handle: Handle, rigs: list[Rig]) -> None:
    rig = rig_of(rigs, MetadataFetchError("no broker in sight"))
    with pytest.raises(KafkaException, match=r"nothing is known of topic orders: .*no broker in sight"):
        rig.subscription.wait_for_topic("orders", 10.0)
    assert time.now == pytest.approx(110.0, abs=0.1)


@pytest.mark.parametrize("ends", ["producer", "poller"])
def test_a_poller_that_is_closed_is_not_waited_for(
    ends: str, time: Time, handle: Handle, rigs: list[Rig]
) -> None:
    rig = rig_of(rigs, MISSING)
    if ends == "producer":
        rig.subscription.end()
    else:
        rig.poller.close()
    with pytest.raises(RuntimeError, match="closed"):
        rig.subscription.wait_for_topic("orders", 10.0)
    assert time.now < 101.0


@pytest.mark.parametrize("ends", ["closed", "dropped"])
def test_a_producer_that_ends_leaves_once(handle: Handle, rigs: list[Rig], ends: str) -> None:
    """What it has in flight is reported no more, so the failure detector must not wait for it."""
    rig = rig_of(rigs, THERE, THERE)
    if ends == "closed":
        rig.subscription.end()
        rig.subscription.end()
    else:
        rig.producer = None
        assert rig.left == 0, "a finalizer only leaves a message"
        rig.poller.poll_once()
    assert rig.left == 1
