"""The adaptive partitioner: turns, proportions, what it leaves at once, and what is asked twice."""

import random
from collections import Counter
from typing import Any

import pytest

from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.partitioners.adaptive import TURN_S, AdaptivePartitioner, TopicPace
from kafka_partition_events.partitioners.sticky import BATCH_BYTES, record_bytes
from kafka_partition_events.routing.hashing import murmur2_partition
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.partitioner_kit import judged

SIX = [1, 2, 3, 1, 2, 3]


class Asker:
    """A partitioner on a clock that stands still, and a client that asks it."""

    def __init__(self, turn_bytes: int = BATCH_BYTES, **options: Any) -> None:
        self.clock = ManualClock(100.0)
        kind: type[AdaptivePartitioner] = type("Asked", (AdaptivePartitioner,), {"turn_bytes": turn_bytes})
        self.partitioner = kind(clock=self.clock.monotonic, **{"rng": random.Random(1)} | options)
        policy = DetectorPolicy(first_rest=0.5, down_for=0.0)
        self.deliveries = judged(self.partitioner, self.clock.monotonic, policy)
        self.partitioner.apply_snapshot(cluster_of({"t": list(SIX)}, brokers=[1, 2, 3]))

    def ask(self, value: bytes | None = b"v", key: bytes | None = None) -> int:
        return self.partitioner.partition("t", key, key, value, value, None)

    def turns(self, count: int) -> list[int]:
        """Ask for one record in each of so many turns."""
        asked = []
        for _ in range(count):
            asked.append(self.ask())
            self.clock.advance(TURN_S)
        return asked

    def turn_began(self) -> None:
        pace = self.partitioner._paces.setdefault("t", TopicPace())
        pace.turn_began(self.deliveries.tracked("t"))

    def listen(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)
            self.deliveries.polled()


class TestTurns:
    def test_go_on_in_order_while_all_brokers_are_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """KAFKA-10888's kind: a search for who is not behind took a whole round, and ended where it began."""
        asker = Asker()
        monkeypatch.setattr(asker.deliveries, "lagging", lambda: frozenset({1, 2, 3}))
        assert Counter(asker.turns(600)) == dict.fromkeys(range(6), 100)

    def test_count_the_bytes_of_keys_that_are_ignored(self) -> None:
        asker = Asker(turn_bytes=2 * record_bytes(b"k" * 5, b"v" * 5), ignore_keys=True)
        asked = [asker.ask(b"v" * 4, key=b"k" * 6) for _ in range(12)]
        assert asked[0::2] == asked[1::2]
        assert sorted(asked[0::2]) == list(range(6))

    @pytest.mark.parametrize(("linger", "lasts"), [(0.0, TURN_S), (0.1, 0.1)])
    def test_end_after_25_ms_or_as_long_as_the_client_lingers(self, linger: float, lasts: float) -> None:
        asker = Asker()
        asker.deliveries.serve(linger=linger)
        first = asker.ask()
        asker.clock.advance(lasts - 0.001)
        assert asker.ask() == first
        asker.clock.advance(0.001)
        assert asker.ask() != first

    def test_do_not_end_by_themselves_for_a_client_that_has_turns_of_its_own(self) -> None:
        asker = Asker(turn_bytes=1)
        first = asker.partitioner.current("t")
        asker.clock.advance(10)
        assert asker.partitioner.current("t") == first
        asker.partitioner.move_on("t", first)
        second = asker.partitioner.current("t")
        assert second != first
        asker.partitioner.move_on("t", first)
        assert asker.partitioner.current("t") == second, "another thread has moved on already"


class TestKeyedRecords:
    def test_stay_where_they_are_when_their_broker_is_suspect(self) -> None:
        asker = Asker()
        asker.deliveries.unreachable(1)
        asker.listen(1)
        assert asker.deliveries.probing
        for number in range(50):
            key = b"%d" % number
            assert asker.ask(key=key) == murmur2_partition(key, 6)
        assert asker.deliveries.stats.probes == 0

    def test_avoid_suspects_and_probe_them_with_ignore_keys(self) -> None:
        asker = Asker(turn_bytes=1, ignore_keys=True)
        asker.deliveries.unreachable(1)
        assert {asker.ask(key=b"same") for _ in range(12)} == {1, 2, 4, 5}
        asker.listen(1)
        assert asker.ask(key=b"same") in {0, 3}
        assert asker.deliveries.stats.probes == 1


def test_a_turn_on_another_broker_than_the_suspect_one_goes_on() -> None:
    asker = Asker()
    first = asker.ask()
    asker.deliveries.unreachable(SIX[first] % 3 + 1)
    assert asker.ask() == first


class TestAskedTwice:
    """kafka-python asks again about a record that opens a batch (KAFKA-9965)."""

    def test_the_second_answer_is_the_first_and_begins_no_turn(self) -> None:
        asker = Asker(turn_bytes=1)
        for _ in range(12):
            first = asker.ask()
            turn = asker.partitioner._places["t"]
            asker.partitioner.on_new_batch("t", None, first)
            assert asker.ask() == first
            assert asker.partitioner._places["t"] is turn

    def test_a_probe_is_one_record_that_is_asked_about_twice(self) -> None:
        asker = Asker()
        stuck = asker.ask()
        suspect = SIX[stuck] % 3 + 1
        asker.deliveries.unreachable(suspect)
        asker.listen(1)
        probe = asker.ask()
        assert SIX[probe] == suspect
        asker.partitioner.on_new_batch("t", None, probe)
        assert asker.ask() == probe
        assert SIX[asker.ask()] != suspect, "the next record is none"
        assert asker.deliveries.stats.probes == 1


def fall_behind(asker: Asker, patience: float) -> None:
    """Let partition 0 be behind by turns, while partition 3, of the same broker, answers for 50 ms."""
    policy = DetectorPolicy(shortest_stall=patience, longest_stall=patience, median_factor=1e6)
    asker.deliveries._detector.seen.policy = policy
    for turn in range(8):
        asker.turn_began()
        for _ in range(10):
            asker.deliveries.sent("t", 0 if turn < 7 else 3, 1)
    for _ in range(10):
        asker.clock.advance(0.005)
        asker.deliveries.answered("t", 3, 0.005)
        asker.deliveries.polled()
    assert not asker.deliveries.avoidance


def test_partitions_that_are_behind_get_less_and_never_nothing() -> None:
    asker = Asker()
    fall_behind(asker, patience=1000.0)
    (behind, *others) = asker.partitioner._paces["t"].backlogs(asker.deliveries, "t", range(6))
    assert behind >= 5
    assert others == [0] * 5
    asked = Counter(asker.turns(1)[0] for _ in range(520))
    assert 0 < asked[0] < asked[1] / 4
    assert max(asked[p] for p in range(1, 6)) - min(asked[p] for p in range(1, 6)) <= 8
