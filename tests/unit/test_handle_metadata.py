"""How a producer's handle learns of partitions, and how a record waits for that. No broker."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException

from kafka_partition_events import GrowthSafePartitioner, MetadataFetchError, MetadataPoller, TopicInfo
from kafka_partition_events.clients.confluent import handle_metadata as module
from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.handle_metadata import FEW, HandleMetadata
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ScriptedSource, observe
from kafka_partition_events.testing.scripted import cluster_of

AT_LEISURE = float("inf")
MISSING = observe({}, brokers=[1])
THERE = observe({"orders": [1, 1, 1]})
EVERYTHING = {f"t{number}" for number in range(100)}


class Handle:
    """Stands for librdkafka's producer: it knows what it was made to ask for."""

    def __init__(self) -> None:
        self.there: dict[str, int] = {}
        self.asked: list[str | None] = []
        self.lags = 0  # so often it knows of no partition

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        self.asked.append(topic)
        self.lags -= (lags := self.lags > 0)
        names = self.there if topic is None else [topic]
        known = {
            name: SimpleNamespace(error=None, partitions=range(0 if lags else self.there.get(name, 0)))
            for name in names
        }
        return SimpleNamespace(topics=known)

    def take_asked(self) -> list[str | None]:
        """Return what was asked for since this was called last."""
        asked, self.asked = self.asked, []
        return asked


def of(handle: Handle, written: Any) -> HandleMetadata:
    return HandleMetadata(cast("Any", handle), written, cast("Any", None))


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "Producer", Handle)
    return Handle()


def topics(handle: Handle, **partitions: int) -> dict[str, TopicInfo]:
    """Let the cluster have topics with so many partitions; return what an answer tells of them."""
    handle.there |= partitions
    return dict(cluster_of({name: [1] * count for name, count in partitions.items()}).by_topic)


def named(numbers: Iterable[int]) -> dict[str, int]:
    return {f"t{number}": 1 for number in numbers}


@pytest.mark.parametrize(
    ("written", "there", "asked"),
    [(EVERYTHING, FEW, list(named(range(FEW)))), (EVERYTHING, FEW + 1, [None]), ({"t1"}, 20, ["t1"])],
    ids=["a few by name", "many together", "only what is written"],
)
def test_topics_that_are_new_are_asked_for(
    written: set[str], there: int, asked: list[str | None], handle: Any
) -> None:
    of(handle, written).learn(topics(handle, **named(range(there))), AT_LEISURE)
    assert handle.asked == asked


def test_only_what_is_new_or_has_grown_is_asked_for(handle: Any) -> None:
    one = of(handle, EVERYTHING)
    one.learn(topics(handle, **named(range(FEW + 1))), AT_LEISURE)
    handle.take_asked()
    for known, asked in (
        (topics(handle, **named(range(FEW + 1))), []),
        (topics(handle, **named(range(FEW + 2))), [f"t{FEW + 1}"]),
        (topics(handle, t0=3, t1=1), ["t0"]),
    ):
        one.learn(known, AT_LEISURE)
        assert handle.take_asked() == asked


def test_a_broker_that_lags_is_asked_up_to_four_times(handle: Any) -> None:
    handle.lags = 3
    assert of(handle, EVERYTHING).learn(topics(handle, t0=1))
    assert handle.take_asked() == 4 * ["t0"]
    handle.lags = 4
    assert not of(handle, EVERYTHING).learn(topics(handle, t0=1))


def test_what_a_record_waits_for_is_asked_for_though_no_answer_has_it(handle: Any) -> None:
    """By that it comes into being, where brokers and producer allow it."""
    of(handle, set()).ask_for("new", AT_LEISURE)
    assert handle.asked == ["new"]


def test_who_was_released_touches_the_handle_no_more(handle: Any) -> None:
    one = of(handle, EVERYTHING)
    one.release()
    assert not one.learn(topics(handle, t0=1), AT_LEISURE)
    assert handle.asked == []


def test_a_signal_handler_may_close_it_while_it_asks(handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, real = of(handle, EVERYTHING), handle.list_topics

    def interrupted(topic: str | None, timeout: float) -> Any:
        assert one._calling.acquire(blocking=False), "it would wait for itself"
        one._calling.release()
        one.release()
        return real(topic, timeout)

    monkeypatch.setattr(Handle, "list_topics", lambda _self, *words: interrupted(*words))
    one.ask_for("t0", AT_LEISURE)
    assert one.ended


def test_a_handle_that_knows_fewer_partitions_than_the_poller_lags(handle: Any) -> None:
    poller: Any = SimpleNamespace(cluster=None)
    one = HandleMetadata(handle, cast("Any", EVERYTHING), poller)
    assert not one.lags("t0"), "nobody knows more"
    for count in (1, 2):
        poller.cluster = cluster_of({"t0": [1] * count})
        assert one.lags("t0")
        handle.there["t0"] = count
        assert one.learn(poller.cluster.by_topic, AT_LEISURE)
        assert not one.lags("t0")


def test_a_thread_that_produces_may_let_it_learn_of_a_topic_while_the_poller_does(handle: Any) -> None:
    class Written:
        """The other thread comes when the first one looks in here."""

        meanwhile: dict[str, TopicInfo] | None = None

        def __contains__(self, _name: object) -> bool:
            if (other := self.meanwhile) is not None:
                self.meanwhile = None
                one.learn(other, AT_LEISURE)
            return True

    written = Written()
    one = of(handle, written)
    one.learn(topics(handle, t0=1), AT_LEISURE)
    written.meanwhile = topics(handle, t1=1)
    one.learn(topics(handle, t0=1), AT_LEISURE)
    one.learn(topics(handle, t0=1, t1=1), AT_LEISURE)
    assert handle.asked == ["t0", "t1"]


class Time:
    """Stands for the module ``time``: sleeping is all that takes any."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch, handle: Handle) -> Time:
    times = Time()
    monkeypatch.setattr(module, "time", times)
    return times


class Rig:
    """A producer that follows a poller which plays a script, one answer for each poll."""

    def __init__(self, *script: Observation | Exception) -> None:
        self.poller = MetadataPoller(ScriptedSource(*script), (), min_interval=0.01)
        partitioner = GrowthSafePartitioner(mapping="rendezvous")
        self.chooser = Chooser(partitioner, {}, chunks=True)
        self.handle = Handle()
        self.handle.there = {"orders": 3}
        self.metadata = HandleMetadata(cast("Any", self.handle), self.chooser, self.poller)
        follower = self.poller.join(partitioner, self.chooser.written)
        self.chooser.ask_for = follower.ask_for
        self.chooser.turn("orders")


@pytest.fixture
def rigs() -> Iterator[list[Rig]]:
    rigs: list[Rig] = []
    yield rigs
    for rig in rigs:
        rig.poller.close()


def rig_of(rigs: list[Rig], *script: Observation | Exception) -> Rig:
    rigs.append(Rig(*script))
    return rigs[-1]


def test_a_handle_that_lags_behind_the_poller_is_waited_for(times: Time, rigs: list[Rig]) -> None:
    rig = rig_of(rigs, THERE)
    rig.poller.poll_once()
    rig.handle.lags = 6
    rig.metadata.wait_for_topic("orders", 10.0)
    assert rig.handle.lags == 0
    assert rig.handle.asked == 7 * ["orders"]


def test_it_gives_up_when_the_time_is_up_and_says_why(times: Time, rigs: list[Rig]) -> None:
    rig = rig_of(rigs, MetadataFetchError("no broker in sight"))
    with pytest.raises(KafkaException, match=r"nothing is known of topic orders: .*no broker in sight"):
        rig.metadata.wait_for_topic("orders", 10.0)
    assert times.now == pytest.approx(110.0, abs=0.1)


@pytest.mark.parametrize("ends", ["producer", "poller"])
def test_a_poller_that_is_closed_is_not_waited_for(ends: str, times: Time, rigs: list[Rig]) -> None:
    rig = rig_of(rigs, MISSING)
    if ends == "producer":
        rig.metadata.release()
    else:
        rig.poller.close()
    with pytest.raises(RuntimeError, match="closed"):
        rig.metadata.wait_for_topic("orders", 10.0)
    assert times.now < 101.0
