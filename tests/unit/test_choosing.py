"""How `PartitioningProducer` asks partitioners that ignore keys, and those that must place keys."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_partition_events import (
    UNASSIGNED,
    AdaptivePartitioner,
    DefaultPartitioner,
    MetadataPoller,
    Partitioner,
    RoundRobinPartitioner,
    Route,
    UniformStickyPartitioner,
)
from kafka_partition_events.clients.confluent.choosing import MAX_IDLE_S, Chooser
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ScriptedSource, observe
from tests.partitioner_kit import Lowest
from tests.poller_kit import also_ask_for

ORDERS = observe({"orders": [1, 2, 3]})
KEYS: list[Any] = [None, "a", b"b", "", b""]

Make = Callable[..., Chooser]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by hand."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def make() -> Iterator[Make]:
    """Make choosers whose partitioner follows a poller that plays a script."""
    pollers: list[MetadataPoller] = []

    def make(
        partitioner: Partitioner, *script: Observation | Exception, known: bool = True, chunks: bool = True
    ) -> Chooser:
        poller = MetadataPoller(ScriptedSource(*(script or (ORDERS,))), (), min_interval=0.01)
        pollers.append(poller)
        chooser = Chooser(partitioner, {"linger.ms": 60_000}, chunks=chunks)
        chooser.poller, chooser.ask_for = poller, poller.join(partitioner, chooser.written).ask_for
        if known:
            also_ask_for(poller, "orders")
            poller.poll_once()
        return chooser

    yield make
    for poller in pollers:
        poller.close()


class TestALimitedTopic:
    def test_has_its_keys_placed_here_because_librdkafka_would_use_all_partitions(self, make: Make) -> None:
        partitioner = DefaultPartitioner()
        chooser = make(partitioner)
        chooser.turn("orders")
        chooser.choose("orders", b"a", None)
        assert "orders" in chooser.cuts.log_keys
        partitioner.routing.limit({"orders": 2})
        assert "orders" not in chooser.cuts.log_keys
        assert {chooser.choose("orders", b"key-%d" % n, None) for n in range(50)} == {0, 1}
        assert "orders" not in chooser.cuts.log_keys
        partitioner.routing.limit({})
        chooser.choose("orders", b"a", None)
        assert "orders" in chooser.cuts.log_keys

    def test_is_left_to_librdkafka_again_only_if_the_limit_is_still_off(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        partitioner = DefaultPartitioner()
        chooser = make(partitioner)
        turn = chooser.turn("orders")
        open_short_cut = type(turn).open_short_cut

        def limited_meanwhile(turn: Any, *arguments: Any) -> None:
            partitioner.routing.limit({"orders": 2})
            open_short_cut(turn, *arguments)

        monkeypatch.setattr(type(turn), "open_short_cut", limited_meanwhile)
        chooser.choose("orders", b"a", None)
        assert "orders" not in chooser.cuts.log_keys


@pytest.mark.parametrize(
    "name", ["x" * 250, "or\0ders", "or\ud800ders", "", ".", "..", "or ders", "or/ders", "\u00f6rders"]
)
def test_a_name_that_no_topic_can_have_is_not_followed(make: Make, name: str) -> None:
    """Each metadata request that named it would fail, for all topics."""
    chooser = make(DefaultPartitioner())
    chooser.choose("orders", None, b"v")
    assert chooser.choose(name, None, b"v") == UNASSIGNED
    assert list(chooser.written()) == ["orders"]


KEYLESS = [UniformStickyPartitioner, lambda: AdaptivePartitioner(ignore_keys=True)]


@pytest.mark.parametrize("partitioner", KEYLESS)
class TestAPartitionerThatIgnoresKeys:
    def test_has_them_share_the_hot_paths_chunk(self, partitioner: Any, make: Make, now: list[float]) -> None:
        chooser = make(partitioner())
        for _ in range(2):  # no time passes in between: the longest chunk
            chosen = chooser.choose("orders", b"k", b"v")
        assert set(chooser.cuts.unkeyed["orders"]) == {chosen}

    def test_is_asked_for_each_where_records_may_be_rescued(self, partitioner: Any, make: Make) -> None:
        chooser = make(partitioner(), chunks=False)
        chooser.choose("orders", b"k", b"v")
        assert chooser.cuts.unkeyed["orders"] == ()

    def test_answers_for_a_chunk_of_those_until_its_routes_change(
        self, partitioner: Any, make: Make, now: list[float], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = partitioner()
        current = Mock(wraps=asked.current)
        monkeypatch.setattr(asked, "current", current)
        chooser = make(asked, chunks=False)
        first = {chooser.choose("orders", b"k", b"v") for _ in range(50)}
        assert (len(first), current.call_count) == (1, 2)
        asked.deliveries.unreachable(min(first) + 1)  # its leader
        assert first.isdisjoint(chooser.choose("orders", b"k", b"v") for _ in range(50))


def test_round_robin_counts_keyed_records_as_it_counts_others(make: Make) -> None:
    three_online = observe({"orders": [1, 2, 3, None]}, brokers=[1, 2, 3])
    chooser = make(RoundRobinPartitioner(rng=Lowest()), three_online)
    assert [chooser.choose("orders", key, b"v") for key in KEYS] == [0, 1, 2, 0, 1]
    assert chooser.stats.rerouted == 5


def test_a_probe_that_a_batch_takes_leaves_no_chunk_that_nobody_counts(
    make: Make, monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    partitioner = UniformStickyPartitioner()
    chooser = make(partitioner)
    partitioner.deliveries.unreachable(2)
    for _ in range(2):
        chooser.choose("orders", b"k", b"v")
    partitioner.deliveries.probing = True
    monkeypatch.setattr(partitioner.deliveries, "take_probe", lambda *_: 1)
    assert chooser.choose_for("orders", 100) == (1, 1)
    assert list(chooser.cuts.unkeyed["orders"]) == []


# -- keys that librdkafka must not place -------------------------------------------------------------


class OwnKeys(Partitioner):
    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        return route.usable[0] if key is None else route.count - 1

    def requires_metadata(self, topic: str) -> bool:
        return topic == "orders"


def test_librdkafka_must_not_place_keys_of_topics_whose_metadata_is_required(make: Make) -> None:
    chooser = make(OwnKeys(hash_name="crc32"), known=False)
    assert chooser.must_place("orders", b"k")
    assert not chooser.must_place("other", b"k")
    chooser._partitioner.keying.empty_is_no_key = True
    assert not chooser.must_place("orders", b""), "an empty key is none to librdkafka"


# -- topics that are not written any more ------------------------------------------------------------


def test_a_topic_that_is_not_written_is_forgotten(make: Make, now: list[float]) -> None:
    """However its records are placed: one by one, from a chunk, by librdkafka, or by the caller."""
    chooser = make(DefaultPartitioner())
    turn = chooser.turn("orders")
    chooser.choose("idle", None, b"v")
    for _ in range(5):
        now[0] += MAX_IDLE_S
        assert "orders" in chooser.written()
        assert "orders" in chooser
        assert "orders" not in chooser.turns, "so the next record asks"
        assert chooser.turn("orders") is turn, "which goes on"
    assert [*chooser.written()] == ["orders"]
    assert "idle" not in chooser
    chooser.choose("idle", None, b"v")
    assert sorted(chooser.written()) == ["idle", "orders"]


def test_a_short_cut_is_closed_while_a_topic_is_set_aside(make: Make, now: list[float]) -> None:
    chooser = make(DefaultPartitioner())
    chooser.choose("orders", b"k", b"v")
    assert "orders" in chooser.cuts.log_keys
    now[0] += MAX_IDLE_S
    chooser.written()
    assert "orders" not in chooser.cuts.log_keys
