"""Turns: how long unkeyed records stay with a partition, and when a producer looks at the clock."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from operator import length_hint
from typing import Any, cast

import pytest

from kafka_partition_events import DefaultPartitioner, MetadataPoller
from kafka_partition_events.clients.confluent.turns import (
    CHUNK_S,
    LONGEST_CHUNK,
    Chunk,
    Pace,
    ShortCuts,
    Turn,
    TurnLength,
    turn_length,
)
from kafka_partition_events.clients.flight.key_order import KeyOrder
from kafka_partition_events.testing import ScriptedSource, observe
from tests.poller_kit import orders


@pytest.mark.parametrize(
    ("config", "answer", "lasts"),
    [
        ({}, None, 0.005),  # as long as no broker has answered: until a batch is filled
        ({"linger.ms": 0}, None, 0.025),
        ({"linger.ms": 4}, None, 0.025),
        ({"linger.ms": "100"}, None, 0.1),
        ({"queue.buffering.max.ms": 50}, None, 0.05),
        ({"linger.ms": 100, "sticky.partitioning.linger.ms": 10}, None, 0.01),
        ({"linger.ms": 0}, 0.003, 0.025),  # the usual case: brokers are not busy
        ({"linger.ms": 0}, 0.04, 0.12),
        ({"linger.ms": 0}, 2.0, 0.25),  # a longer turn would put too much on a broker that fails meanwhile
        ({"linger.ms": 10}, 0.009, 0.01),  # lingering fills the batches, and brokers keep up with them
        ({"linger.ms": 10}, 0.04, 0.12),
        ({"linger.ms": 10}, 2.0, 0.25),
        ({"linger.ms": 1000}, 2.0, 1.0),
        ({"linger.ms": 0, "sticky.partitioning.linger.ms": 10}, 2.0, 0.01),  # the user's own setting is kept
    ],
)
def test_a_turn_is_longer_while_brokers_take_longer_to_answer_than_lingering_takes(
    config: dict[str, Any], answer: float | None, lasts: float
) -> None:
    assert turn_length(config).while_answers_take(answer) == pytest.approx(lasts)


class Times:
    """A clock that is set by hand."""

    now = 1000.0


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    times = Times()
    monkeypatch.setattr("time.monotonic", lambda: times.now)
    return times


@pytest.fixture
def poller() -> Iterator[MetadataPoller]:
    """One that finds three partitions, and two of them offline the next time."""
    answers = orders(1, 2, 3), observe({"orders": [1, None, None]}, brokers=[1])
    with closing(MetadataPoller(ScriptedSource(*answers))) as poller:
        yield poller


@pytest.fixture
def partitioner(poller: MetadataPoller) -> DefaultPartitioner:
    partitioner = DefaultPartitioner()
    poller.register(partitioner)
    poller.poll_once()
    return partitioner


SHORT, LONG = TurnLength(0.025, 0.025), TurnLength(60.0, 60.0)


def a_turn(partitioner: Any, length: TurnLength = LONG) -> Turn:
    cuts = ShortCuts(unkeyed={"orders": ()})
    return Turn("orders", partitioner, length, Pace(), cuts, stay_with=partitioner)


def rest(turn: Turn) -> Iterable[int]:
    return turn._cuts.unkeyed["orders"]


def is_open(turn: Turn) -> bool:
    return "orders" in turn._cuts.log_keys


def test_a_turn_asks_how_long_brokers_take(times: Times, partitioner: Any) -> None:
    turn, deliveries = a_turn(partitioner, TurnLength(0.025, 0.25)), partitioner.deliveries
    for broker in (1, 2, 3):
        deliveries.sent("orders", broker - 1, broker)
        deliveries.answered("orders", broker - 1, 0.05)
    first = turn.renew()
    times.now += 0.148
    assert turn.renew() == first
    times.now += 0.002  # 3 answers of 50 ms
    assert turn.renew() != first


def test_a_slow_producer_begins_a_turn_with_each_record(times: Times, partitioner: Any) -> None:
    turn, went = a_turn(partitioner, SHORT), []
    for _ in range(20):
        times.now += 1.0
        assert list(rest(turn)) == []
        went.append(turn.renew())
    assert all(one != other for one, other in pairwise(went))


def test_a_fast_producer_looks_at_the_clock_now_and_then(times: Times, partitioner: Any) -> None:
    turn, looks, moves = a_turn(partitioner, SHORT), 0, 0
    for _ in range(20_000):
        for partition in rest(turn):
            assert partition == turn.partition
            break
        else:
            before = turn.partition
            looks += 1
            moves += turn.renew() != before
        times.now += 5e-6
    assert looks <= 0.1 / CHUNK_S + 10
    assert 3 <= moves <= 6  # 0.1 s in turns of 25 ms


@pytest.mark.parametrize("apart_s", [5e-6, 5e-4, 2e-3])
def test_the_records_of_a_turn_linger_together(times: Times, partitioner: Any, apart_s: float) -> None:
    turn, began = a_turn(partitioner, turn_length({"linger.ms": 5})), times.now
    for _ in range(round(0.2 / apart_s)):
        for _ in rest(turn):
            break
        else:
            before = turn.partition
            if turn.renew() != before:
                began = times.now
        assert times.now < began + 0.005, "else it would be one more request, for itself"
        times.now += apart_s


def test_a_chunk_that_old_routes_chose_is_not_kept(
    times: Times, partitioner: Any, poller: MetadataPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, current = a_turn(partitioner), partitioner.current
    turn.renew()

    def overtaken(topic: str) -> int:
        chosen: int = current(topic)
        poller.poll_once()  # the poller swaps the routes and drops the chunk before there is one
        return chosen

    monkeypatch.setattr(partitioner, "current", overtaken)
    turn.renew()
    assert partitioner.routing.current is not turn.seen
    assert list(rest(turn)) == []


def test_a_batch_is_taken_from_the_chunk_and_may_be_longer(
    times: Times, partitioner: Any, poller: MetadataPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    poller.poll_once()
    turn = a_turn(partitioner)
    for count, left in ((100, LONGEST_CHUNK - 100), (3000, 0)):
        monkeypatch.setattr(turn._chunk, "_began_at", 1000.0)  # at once: the longest chunk
        turn.renew(count)
        assert length_hint(rest(turn)) == left
    assert turn.counted() == (3100, 0, 0)


class Suspicions:
    """Stands for `Deliveries`: another thread may begin to suspect while this one reads."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)

    @property
    def avoiding(self) -> bool:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def keys() -> KeyOrder:
    return KeyOrder(lambda _topic: None)


@pytest.mark.parametrize("order", [keys(), None], ids=["several handles", "one handle"])
def test_the_short_cut_of_keyed_records_is_open_until_there_are_new_routes(
    partitioner: Any, poller: MetadataPoller, order: KeyOrder | None
) -> None:
    turn = a_turn(partitioner)
    assert not is_open(turn)
    turn.open_short_cut(order)
    assert is_open(turn)
    poller.poll_once()
    assert not is_open(turn)


def test_it_is_closed_while_a_broker_is_suspect_if_a_handle_is_to_be_chosen(partitioner: Any) -> None:
    turn = a_turn(partitioner)
    partitioner.deliveries = cast("Any", Suspicions(True))
    turn.open_short_cut(keys())
    assert not is_open(turn)
    turn.open_short_cut(None)
    assert is_open(turn)


@pytest.mark.parametrize("order", [keys(), None], ids=["several handles", "one handle"])
def test_a_suspicion_that_comes_meanwhile_is_not_missed(partitioner: Any, order: KeyOrder | None) -> None:
    turn = a_turn(partitioner)
    partitioner.deliveries = cast("Any", Suspicions(False, True))
    turn.open_short_cut(order)
    assert not is_open(turn)


def test_turns_of_producers_that_are_gone_are_forgotten(partitioner: Any, poller: MetadataPoller) -> None:
    turn, _gone = a_turn(partitioner), a_turn(partitioner)
    assert len(partitioner.routing._on_renewed) == 3
    del _gone
    poller.poll_once()
    assert {reference() for reference in partitioner.routing._on_renewed} == {turn.drop, partitioner.drop}


def test_a_record_of_a_chunk_that_has_ended_is_taken_by_nobody_else() -> None:
    chunk = Chunk()
    chunk.begin(3, 10)
    late = chunk.rest  # of a thread that is about to take from it
    assert next(late) == 3
    assert chunk.end() == chunk.used == 2
    assert list(late) == []
