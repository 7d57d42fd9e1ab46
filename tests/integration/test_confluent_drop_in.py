"""A `PartitioningProducer` takes and refuses what a plain producer does, and says it in the same words."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import Producer

from kafka_partition_events import (
    AdaptivePartitioner,
    ConfigurationError,
    GrowthSafePartitioner,
    MetadataPoller,
    Partitioner,
    RoundRobinPartitioner,
    Route,
)
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer, adapter
from tests.mock_cluster import MockCluster
from tests.poller_kit import also_ask_for

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
LIMIT_S = 10.0
RESCUES = pytest.mark.parametrize("rescue", [None, "failed", "hedge"])


@pytest.fixture(scope="module")
def config() -> Iterator[dict[str, Any]]:
    """How to connect to the cluster of all these tests."""
    with MockCluster(3) as cluster:
        cluster.create_topic("t", 3)
        yield {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}


def assert_alike(use: Callable[[Any], object], ours: Any, plain: Any) -> None:
    assert outcome(lambda: use(ours)) == outcome(lambda: use(plain))


def outcome(call: Callable[[], object]) -> str:
    """Return what becomes of a call, in words."""
    try:
        made = call()
    except Exception as error:  # noqa: BLE001 - whatever plain raises
        return f"{type(error).__name__}: {error}"
    if isinstance(made, Producer):
        made.close()
        return "a producer"
    return repr(made)


def know(producer: PartitioningProducer) -> None:
    also_ask_for(producer.poller, "t")
    deadline = time.monotonic() + LIMIT_S
    while producer.partitioner.route("t") is None:
        assert time.monotonic() < deadline
        producer.poller.refresh(wait=1)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((None,), {}),
        (([],), {}),
        ((NOWHERE,), {}),
        ((), NOWHERE),
        ((NOWHERE,), {"linger.ms": 7}),
        ((NOWHERE,), {"partitioner": "murmur2_random"}),
        ((NOWHERE,), {"partitioner": "murmur"}),
        (({**NOWHERE, "partitioner": "murmur"},), {}),
        (({**NOWHERE, "linger.ms": "abc"},), {}),
        (({**NOWHERE, "linger.ms": None},), {}),
        (({**NOWHERE, "sticky.partitioning.linger.ms": "abc"},), {}),
        (({**NOWHERE, "queue.buffering.max.messages": "abc"},), {}),
        (({**NOWHERE, "error_cb": 5},), {}),
        (({**NOWHERE, "on_delivery": 5},), {}),
        (({**NOWHERE, "no.such.setting": 1},), {}),
        (({**NOWHERE, "acks": "some"},), {}),
    ],
)
def test_what_is_legal_for_a_plain_producer_is_legal_here(args: Any, kwargs: Any) -> None:
    assert_alike(lambda kind: kind(*args, **kwargs), PartitioningProducer, Producer)


class ByPython(AdaptivePartitioner):
    """Places each key itself: librdkafka may not know what a subclass does."""

    def home(self, route: Route, key: bytes) -> int:
        return super().home(route, key)

    def requires_metadata(self, topic: str) -> bool:
        return False


@pytest.mark.parametrize(
    "setting", [None, "consistent", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
)
@pytest.mark.parametrize(
    "partitioner", [AdaptivePartitioner, ByPython], ids=["librdkafka places", "python places"]
)
def test_no_key_moves_when_the_class_is_swapped(
    config: dict[str, Any], setting: str | None, partitioner: type[Partitioner]
) -> None:
    if setting is not None:
        config = {**config, "partitioner": setting}
    keys = [b"key-%d" % number for number in range(100)] + ([] if setting is None else [b""])

    def where(producer: Producer) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key in keys:
            producer.produce("t", b"v", key, on_delivery=lambda _, m: found.update({m.key(): m.partition()}))
        assert producer.flush(LIMIT_S) == 0
        return found

    plain = where(Producer(config))
    with PartitioningProducer(config, partitioner()) as ours:
        assert where(ours) == plain, "before there is metadata"
        know(ours)
        assert where(ours) == plain


WRONG = [
    {"value": 5},
    {"value": b"v", "key": 5},
    {"value": b"v", "partition": "1"},
    {"value": b"v", "timestamp": 5},
    {"value": b"v", "headers": 5},
    "no dictionary",
]


@RESCUES
@pytest.mark.parametrize(
    "partitioner",
    [AdaptivePartitioner, RoundRobinPartitioner, partial(GrowthSafePartitioner, mapping="rendezvous")],
    ids=["adaptive", "round robin", "growth-safe"],
)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("before", [0, 10_001], ids=["in front", "behind ten thousand"])
def test_a_batch_with_a_wrong_message_is_refused_whole(
    config: dict[str, Any], rescue: Any, partitioner: Any, wrong: Any, before: int
) -> None:
    batch = [{"value": b"v"}] * before + [
        {"value": b"v"},
        {"value": b"v", "key": b"k"},
        wrong,
        {"value": b"v"},
    ]
    plain = Producer(config)
    with PartitioningProducer(config, partitioner(), rescue=rescue) as ours:
        know(ours)
        assert_alike(lambda made: made.produce_batch("t", batch), ours, plain)
        assert len(ours) == len(plain) == 0
        assert ours.produce_batch("t", [{"value": b"v", "partition": None}, {"key": b"k"}]) == 2
        assert ours.flush(LIMIT_S) == 0


@RESCUES
def test_close_is_idempotent_and_leaves_the_applications_exception_alone(rescue: Any) -> None:
    producer = PartitioningProducer(NOWHERE, rescue=rescue)
    assert producer.close()
    assert producer.close()
    with pytest.raises(KeyError), PartitioningProducer(NOWHERE, rescue=rescue) as producer:  # noqa: PT012
        producer.close()
        raise KeyError


def test_a_subclass_that_forgot_to_make_a_producer_is_told_as_with_plain() -> None:
    class Forgetful(PartitioningProducer):
        def __init__(self) -> None:
            pass

    class Plain(Producer):
        def __init__(self) -> None:
            pass

    for call in (
        lambda p: p.produce("t", b"v"),
        lambda p: p.produce_batch("t", [{"value": b"v"}]),
        lambda p: p.poll(0),
        lambda p: p.flush(0),
        lambda p: p.purge(),
        lambda p: p.close(),
        bool,
    ):
        assert_alike(call, Forgetful(), Plain())
    assert not hasattr(Forgetful(), "no_such_thing")


@RESCUES
def test_a_signal_handler_may_produce(config: dict[str, Any], rescue: Any) -> None:
    """It runs between any two byte codes of the main thread; here, at each call of the turn's own lock."""
    with PartitioningProducer(config, rescue=rescue) as producer:
        know(producer)
        turn = producer._chooser.turn("t")
        done = threading.Event()

        def interrupted() -> None:
            with turn._lock, producer.partitioner.routing._deriving:
                producer.produce("t", b"going down")
            done.set()

        threading.Thread(target=interrupted, daemon=True).start()
        assert done.wait(LIMIT_S)
        assert producer.flush(LIMIT_S) == 0


def test_an_application_may_put_our_class_in_place_of_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_kafka, "Producer", PartitioningProducer)
    producer = confluent_kafka.Producer(NOWHERE)
    assert type(producer) is PartitioningProducer
    producer.close()
    monkeypatch.setattr(confluent_kafka, "Producer", lambda *_: None)
    PartitioningProducer(NOWHERE).close()


# -- sharing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1], ids=["whoever came first", "whoever came last"])
@pytest.mark.parametrize("owned", [True, False], ids=["a producer's poller", "a poller of its own"])
@pytest.mark.parametrize("dropped", [True, False], ids=["collected", "closed"])
def test_who_still_uses_a_partitioner_keeps_its_table(
    config: dict[str, Any], first: int, owned: bool, dropped: bool
) -> None:
    partitioner = GrowthSafePartitioner(mapping="rendezvous")
    poller = None if owned else MetadataPoller(ConfluentMetadataSource(config), [])
    if poller is not None:
        poller.start()
    producers = [PartitioningProducer(config, partitioner, poller)]
    producers.append(PartitioningProducer(config, partitioner, producers[0].poller))
    used = producers[0].poller
    know(producers[0])
    gone, left = producers.pop(first), producers.pop()
    if not dropped:
        gone.close()
    del gone
    gc.collect()
    assert partitioner.route("t") is not None
    assert used.refresh(wait=LIMIT_S)
    assert used.health.failures == 0
    left.produce("t", b"v", b"k")
    assert left.flush(LIMIT_S) == 0
    left.close()
    assert partitioner.route("t") is None
    assert used.health.running is not owned
    used.close()


def test_a_partitioner_that_follows_two_pollers_is_refused(config: dict[str, Any]) -> None:
    partitioner = AdaptivePartitioner()
    with PartitioningProducer(config, partitioner):
        with pytest.raises(ConfigurationError, match="already follows another poller"):
            PartitioningProducer(config, partitioner)
        with (
            MetadataPoller(ConfluentMetadataSource(config), ["t"]) as other,
            pytest.raises(ConfigurationError, match="already follows another poller"),
        ):
            other.register(partitioner)
    with PartitioningProducer(config, partitioner) as after:
        know(after)


class TestKeysThatLibrdkafkaMustNotPlace:
    """`produce` waits for their topic's metadata; an event loop waits before, by `wait_for_topic`."""

    @pytest.mark.parametrize("waited", [False, True])
    @pytest.mark.parametrize("batch", [False, True])
    def test_wait_for_their_topic_which_comes_into_being_as_by_a_plain_producer(
        self, config: dict[str, Any], waited: bool, batch: bool
    ) -> None:
        told: list[tuple[bytes, int]] = []

        def note(error: KafkaError | None, message: Any) -> None:
            assert error is None
            told.append((message.key(), message.partition()))

        topic = f"new-{waited}-{batch}"
        with PartitioningProducer(
            {**config, "linger.ms": 0}, GrowthSafePartitioner(mapping="rendezvous")
        ) as producer:
            if waited:
                producer.wait_for_topic(topic, LIMIT_S)
            keys = [b"k%d" % number for number in range(20)]
            if batch:
                assert producer.produce_batch(topic, [{"key": key} for key in keys], on_delivery=note) == 20
            else:
                for key in keys:
                    producer.produce(topic, b"v", key, on_delivery=note)
            route = producer.partitioner.route(topic)
            assert route is not None
            homes = [(key, producer.partitioner.home(route, key)) for key in keys]
            assert producer.flush(LIMIT_S) == 0
        assert sorted(told) == sorted(homes)

    def test_are_refused_when_nothing_is_known_in_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(adapter, "METADATA_WAIT_S", 0.3)
        told: list[str] = []
        config = {**NOWHERE, "message.timeout.ms": 300, "linger.ms": 0}
        with PartitioningProducer(config, GrowthSafePartitioner(mapping="rendezvous")) as producer:
            producer.produce(
                "t", b"unkeyed: does not wait", on_delivery=lambda error, _: told.append(error.name())
            )
            batch = [{"key": b"k"}, {"value": b"v"}]
            for send in (
                partial(producer.produce, "t", b"v", b"k"),
                lambda: producer.produce_batch("t", batch),
            ):
                began = time.monotonic()
                with pytest.raises(KafkaException, match="nothing is known of topic t") as caught:
                    send()
                assert caught.value.args[0].name() == "_UNKNOWN_TOPIC"
                assert time.monotonic() - began < LIMIT_S
            assert "_error" not in batch[0]
            with pytest.raises(KafkaException, match="nothing is known of topic t"):
                producer.wait_for_topic("t", 0.1)
            assert producer.flush(LIMIT_S) == 0
        assert told == ["_MSG_TIMED_OUT"]

    def test_are_refused_by_a_closed_producer_as_by_a_plain_one(self, config: dict[str, Any]) -> None:
        ours = PartitioningProducer(config, GrowthSafePartitioner(mapping="rendezvous"))
        plain = Producer(config)
        for wrong in ({"value": 5}, {"value": b"v", "headers": 5}):
            assert_alike(lambda made, wrong=wrong: made.produce("wrong", key=b"k", **wrong), ours, plain)  # type: ignore[misc]
        assert len(ours) == 0
        for made in (ours, plain):
            made.close()
        assert_alike(lambda made: made.produce("t", b"v", key=b"k"), ours, plain)
        with pytest.raises(RuntimeError, match="closed"):
            ours.wait_for_topic("t", LIMIT_S)
