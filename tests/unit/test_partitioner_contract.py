"""Every built-in partitioner keeps the contract, and each of its tests can fail."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from threading import get_ident
from typing import Any

import pytest

import kafka_partition_events
from kafka_partition_events import (
    UNASSIGNED,
    AdaptivePartitioner,
    Cluster,
    DefaultPartitioner,
    Event,
    GrowthSafePartitioner,
    Partitioner,
    RoundRobinPartitioner,
    Route,
    StickyPartitioner,
    UniformStickyPartitioner,
)
from kafka_partition_events.testing import PartitionerContract, contract

BUILT_IN: dict[str, Callable[[], Partitioner]] = {
    "default": DefaultPartitioner,
    "sticky, crc32": lambda: StickyPartitioner(hash_name="crc32"),
    "uniform sticky": UniformStickyPartitioner,
    "uniform sticky, small batches": type("Small", (UniformStickyPartitioner,), {"turn_bytes": 1}),
    "round robin": RoundRobinPartitioner,
    "adaptive": AdaptivePartitioner,
    "adaptive, ignore keys": lambda: AdaptivePartitioner(ignore_keys=True),
    "adaptive, rack": lambda: AdaptivePartitioner(rack="a"),
    "key_partitions": lambda: DefaultPartitioner(key_partitions={"orders": 3}),
    "growth-safe, rendezvous": lambda: GrowthSafePartitioner(mapping="rendezvous"),
}


class TestBuiltIns(PartitionerContract):
    @pytest.fixture(autouse=True, params=BUILT_IN.values(), ids=list(BUILT_IN))
    def _factory(self, request: pytest.FixtureRequest) -> None:
        self.factory: Callable[[], Partitioner] = request.param

    @pytest.fixture(autouse=True)
    def _closed(self) -> Iterator[None]:
        self.made: list[Partitioner] = []
        yield
        for partitioner in self.made:
            partitioner.close()

    def make(self) -> Partitioner:
        self.made.append(partitioner := self.factory())
        return partitioner


def test_no_built_in_is_left_out() -> None:
    public = (getattr(kafka_partition_events, name) for name in kafka_partition_events.__all__)
    partitioners = {each for each in public if isinstance(each, type) and issubclass(each, Partitioner)}
    made = [make() for make in BUILT_IN.values()]
    for partitioner in made:
        partitioner.close()
    assert {type(partitioner) for partitioner in made} >= partitioners - {Partitioner}


# -- partitioners with one fault each ----------------------------------------------------------------


class Correct(Partitioner):
    """Round robin for unkeyed records; what the broken ones are made from."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: Counter[str] = Counter()

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        return self.unkeyed(route, topic) if key is None else self.home(route, key)

    def unkeyed(self, route: Route, topic: str) -> int:
        return self.next_of(route.usable, topic)

    def next_of(self, partitions: tuple[int, ...], counter: str) -> int:
        self.steps[counter] += 1
        return partitions[self.steps[counter] % len(partitions)]


class CountsFromOne(Correct):
    def home(self, route: Route, key: bytes) -> int:
        return super().home(route, key) + 1


class LikesTheFirst(Correct):
    def unkeyed(self, route: Route, topic: str) -> int:
        return route.usable[0]


class StepsAtEachCall(Correct):
    """KAFKA-9965. It says that it is sticky, and so may give two answers."""

    sticky = True

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        pass


class AnswersAnewWhenAskedAgain(Correct):
    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        pass


class ScattersKeys(Correct):
    def home(self, route: Route, key: bytes) -> int:
        return random.choice(route.all)


class SaltsKeys(Correct):
    def __init__(self) -> None:
        super().__init__()
        self.salt = random.randbytes(8)

    def home(self, route: Route, key: bytes) -> int:
        return super().home(route, self.salt + key)


class TakesAll(Correct):
    def unkeyed(self, route: Route, topic: str) -> int:
        return self.next_of(route.all, topic)


class StaysUntilTheBatchIsFull(StickyPartitioner):
    """What Kafka's own sticky partitioner does: it looks at availability only when it moves."""

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        if key is not None:
            return self.home(route, key)
        return (self._places.get(topic) or self._settle(topic, route, None)).partition


class TakesAllOnline(Correct):
    """It respects neither the cap nor suspicions."""

    def unkeyed(self, route: Route, topic: str) -> int:
        return self.next_of(route.online or route.all, topic)


class NeedsAnOnlineOne(Correct):
    def unkeyed(self, route: Route, topic: str) -> int:
        return self.next_of(route.usable if route.online else (UNASSIGNED,), topic)


class RemembersTheFirstRoute(Correct):
    """It sees neither growth nor that a topic was made anew."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, Route] = {}

    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        return super().choose(self.first.setdefault(topic, route), topic, key, value)


class NeedsATable(Correct):
    def partition(self, topic: str, *record: Any) -> int:
        if topic not in self.routing.current:
            return UNASSIGNED
        return super().partition(topic, *record)


class RemembersOneRepeatForAllThreads(Correct):
    def __init__(self) -> None:
        super().__init__()
        self.repeat: int | None = None

    def partition(self, *record: Any) -> int:
        again, self.repeat = self.repeat, None
        return super().partition(*record) if again is None else again

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        self.repeat = prev_partition
        time.sleep(0)


class BuildsItsTableInPlace(Correct):
    def __init__(self) -> None:
        super().__init__()
        self.known: list[int] = []

    def apply_snapshot(self, cluster: Cluster | None) -> tuple[Event, ...]:
        self.known.clear()
        time.sleep(0)
        events = super().apply_snapshot(cluster)
        for topic in cluster.by_topic if cluster else ():
            route = self.route(topic)
            self.known.extend(route.usable if route else ())
        return events

    def unkeyed(self, route: Route, topic: str) -> int:
        return self.known[next(self.turns) % len(self.known)]

    turns = count()


class HangsInASecondThread(Correct):
    released = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        self.owner = get_ident()

    def unkeyed(self, route: Route, topic: str) -> int:
        if self.owner != get_ident():
            self.released.wait(60)
        return super().unkeyed(route, topic)


BROKEN = [
    (CountsFromOne, "test_answers_with_ids_that_exist", "CountsFromOne answered 1 for a topic of 1"),
    (LikesTheFirst, "test_unkeyed_records_reach_every_usable_partition", r"reached none of \{1\}"),
    (StepsAtEachCall, "test_unkeyed_records_reach_every_usable_partition", "reached none of"),
    (ScattersKeys, "test_a_key_stays_on_its_partition", "though nothing changed"),
    (SaltsKeys, "test_a_key_stays_on_its_partition", "two instances disagree"),
    (AnswersAnewWhenAskedAgain, "test_a_record_that_is_asked_about_twice_is_placed_once", "1, then 2"),
    (TakesAll, "test_unkeyed_records_avoid_offline_partitions", r"answered [13], and usable are \(0, 2\)"),
    (StaysUntilTheBatchIsFull, "test_an_offline_partition_is_left_at_once", "and usable are"),
    (TakesAllOnline, "test_unkeyed_records_respect_the_cap", "and usable are"),
    (TakesAllOnline, "test_unkeyed_records_avoid_suspect_brokers", "33 records .* only 0 as probes"),
    (NeedsAnOnlineOne, "test_with_all_partitions_offline_records_are_still_taken", "answered -1"),
    (RemembersTheFirstRoute, "test_growth_is_used_at_once", r"reached none of \{3, 4, 5\}"),
    (RemembersTheFirstRoute, "test_a_topic_may_vanish_and_come_back_smaller", "for a topic of 2"),
    (NeedsATable, "test_without_a_table_it_reads_the_clients_metadata", "answered -1, and online are 0"),
    (RemembersOneRepeatForAllThreads, "test_threads_do_not_disturb_each_other", "asked twice about one"),
    (BuildsItsTableInPlace, "test_threads_may_produce_while_tables_change", "by zero|index out of"),
]


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "LEAST_S", 0.0)
    monkeypatch.setattr(contract, "LEAST_RECORDS", 100)
    monkeypatch.setattr(contract, "JOIN_S", 0.1)


def run(make: Callable[[], Partitioner], check: str, **choices: object) -> None:
    contract = type("Contract", (PartitionerContract,), {"make": lambda _self: make(), **choices})
    getattr(contract(), check)()


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("broken", "check", "complaint"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_the_contract_catches(broken: Callable[[], Partitioner], check: str, complaint: str) -> None:
    with pytest.raises((AssertionError, IndexError, ZeroDivisionError), match=complaint):
        run(broken, check)


@pytest.mark.usefixtures("_impatient")
def test_the_contract_catches_a_hang() -> None:
    try:
        with pytest.raises(AssertionError, match="a thread that asks the partitioner hangs"):
            run(HangsInASecondThread, "test_threads_do_not_disturb_each_other")
    finally:
        HangsInASecondThread.released.set()


CHECKS = [name for name in vars(PartitionerContract) if name.startswith("test_")]


def test_each_check_has_caught_something() -> None:
    assert {check for _, check, _ in BROKEN} == set(CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_what_the_broken_ones_are_made_from_is_not_broken(check: str) -> None:
    run(Correct, check)


# -- partitioners that do otherwise on purpose -------------------------------------------------------


def test_a_partitioner_may_prefer_some_partitions() -> None:
    check = "test_unkeyed_records_reach_every_usable_partition"
    run(LikesTheFirst, check, reached=lambda _self, route: route.usable[:1])


def test_a_partitioner_may_spread_a_key() -> None:
    run(ScattersKeys, "test_a_key_stays_on_its_partition", keys_stay=False)
