"""All records, keyed or not, stick to one partition until a batch is full (KIP-480's second partitioner)."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from kafka_partition_events import UniformStickyPartitioner
from kafka_partition_events.partitioners.sticky import BATCH_BYTES, record_bytes
from tests import partitioner_kit as kit

RECORD = record_bytes(b"k", b"v")


def with_table(*leaders: int | None, turn_bytes: int = BATCH_BYTES) -> UniformStickyPartitioner:
    class Made(UniformStickyPartitioner):
        pass

    Made.turn_bytes = turn_bytes
    return kit.with_table(Made(rng=random.Random(3)), *leaders)


def ask(partitioner: UniformStickyPartitioner, key: bytes | None = b"k", value: bytes = b"v") -> int:
    return kit.ask(partitioner, key, value=value)


def send(partitioner: UniformStickyPartitioner, batches: dict[int, int], key: bytes | None, size: int) -> int:
    """Send as kafka-python does: an unkeyed record that does not fit an open batch is asked about again.

    ``batches`` are the bytes in each partition's open batch, of 16,384 at most.
    """
    value = b"v" * size
    partition = ask(partitioner, key, value)
    if key is None and not 0 < batches.get(partition, 0) <= 16_384 - size:
        partitioner.on_new_batch("t", None, partition)
        partition = ask(partitioner, key, value)
    fits = batches.get(partition, 0) + size <= 16_384
    batches[partition] = size + (batches.get(partition, 0) if fits else 0)
    return partition


class TestBatches:
    def test_hold_keyed_records_of_any_key_until_they_are_full(self) -> None:
        partitioner = with_table(1, 2, 3, turn_bytes=10 * RECORD)
        asked = [ask(partitioner, key=b"%d" % (number % 7)) for number in range(100)]
        runs = [asked[i : i + 10] for i in range(0, 100, 10)]
        assert all(len(set(run)) == 1 for run in runs)
        assert all(one[0] != other[0] for one, other in pairwise(runs))

    def test_end_when_the_producer_says_so_of_an_unkeyed_record(self) -> None:
        partitioner = with_table(1, 2, 3)
        stuck = ask(partitioner, None)
        partitioner.on_new_batch("t", None, stuck)
        moved = ask(partitioner, None)
        assert moved != stuck
        assert ask(partitioner) == moved
        partitioner.on_new_batch("t", None, stuck)  # a second thread saw the same full batch
        assert ask(partitioner) == moved


class TestOnKafkaPython:
    @pytest.mark.parametrize("size", [100, 5_000, 9_000, 16_384])
    @pytest.mark.parametrize("partitions", [2, 3, 4])
    def test_unkeyed_records_of_any_size_reach_all_partitions(self, size: int, partitions: int) -> None:
        """With two partitions, who moves on by itself and is moved on again is back where it was.

        100 turns over 4 partitions, never the same twice: 25 each, standard deviation 3.1; the bound is 4 of
        them. Of 3 partitions it is 6, and two take turns.
        """
        partitioner, batches = with_table(*[1] * partitions), dict[int, int]()
        placed = Counter(send(partitioner, batches, None, size) for _ in range(100 * 16_384 // size))
        assert placed.keys() == set(range(partitions))
        assert min(placed.values()) > placed.total() / partitions / 2

    def test_a_probe_is_one_record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        partitioner = with_table(1, 2, 3)
        partitioner.deliveries.unreachable(2)
        stuck = ask(partitioner)
        probes = [1]
        partitioner.deliveries.probing = True
        monkeypatch.setattr(partitioner.deliveries, "take_probe", lambda *_: probes.pop() if probes else None)
        probe = ask(partitioner, None)
        partitioner.on_new_batch("t", None, probe)
        assert (probe, ask(partitioner, None), ask(partitioner)) == (1, 1, stuck)


class TestChanges:
    def test_a_batch_goes_on_when_something_else_changes(self) -> None:
        partitioner = with_table(1, 2, 3, turn_bytes=10 * RECORD)
        asked = [ask(partitioner) for _ in range(4)]
        kit.with_table(partitioner, 1, 2, 3, 1, 2, 3)
        asked += [ask(partitioner) for _ in range(6)]
        assert len(set(asked)) == 1
        assert ask(partitioner) != asked[0], "it holds ten records, not ten since the change"

    def test_a_clients_turn_is_no_record_and_ends_by_move_on(self) -> None:
        """`PartitioningProducer` asks for turns that go by time."""
        partitioner = with_table(1, 2, 3, turn_bytes=1)
        turn = [partitioner.partition("t", None, None, None, None, None) for _ in range(100)]
        assert len(set(turn)) == 1
        partitioner.move_on("t", turn[0])
        assert partitioner.partition("t", None, None, None, None, None) != turn[0]
