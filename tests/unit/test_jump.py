"""Jump consistent hash: Guava's numbers, and what the paper promises of them."""

import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.routing.hashing import HashName, fnv1a, key_hash, murmur2
from kafka_partition_events.routing.jump import jump_hash

FILE = Path(__file__).parent.parent / "vectors" / "jump.json"
VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["guava"]
MILLION = 1_000_000
jump = jump_hash(lambda number, _width: number)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['input']} of {v['buckets']}")
def test_it_is_guavas_consistent_hash(vector: dict[str, int]) -> None:
    assert jump(vector["input"], vector["buckets"]) == vector["bucket"]


def test_the_one_draw_that_overflows_in_guava_ends_it_there_and_here() -> None:
    [overflow] = [vector for vector in VECTORS if vector.get("overflows")]
    state = (overflow["input"] * 2862933555777941757 + 1) % 2**64
    assert state >> 33 == 2**31 - 1, "which is what it is about"
    assert jump(overflow["input"], overflow["buckets"]) == overflow["bucket"] == 0


def test_signed_and_unsigned_are_the_same_64_bits() -> None:
    assert [jump(-n, 1000) for n in range(1, 50)] == [jump(2**64 - n, 1000) for n in range(1, 50)]


def test_the_largest_topic_there_may_be() -> None:
    assert all(0 <= jump(n, 4_194_304) < 4_194_304 for n in range(1_000))


@pytest.mark.parametrize(
    ("name", "hashed"),
    [("murmur2", lambda key: murmur2(key) & 0x7FFFFFFF), ("crc32", zlib.crc32), ("fnv1a", fnv1a)],
)
def test_keys_are_hashed_first_to_31_bits(name: HashName, hashed: Any) -> None:
    place = jump_hash(key_hash(name))
    for number in range(1_000):
        key = b"user-%d" % number
        assert place(key, 12) == jump(hashed(key) % 0x7FFFFFFF, 12)


@pytest.mark.slow
def test_a_million_keys_from_12_to_13_partitions() -> None:
    """The keys are fixed, so nothing here is left to chance.

    Of 1,000,000 keys 1/13 = 76,923 are expected to move, with a standard deviation of 266.
    """
    keys = [b"user-%d" % number for number in range(MILLION)]
    ours, plain = jump_hash(key_hash("murmur2")), key_hash("murmur2")
    after = [ours(key, 13) for key in keys]
    before = [ours(key, 12) for key in keys]
    moved = sum(a != b for a, b in zip(after, before, strict=True)) / MILLION
    moved_by_modulo = sum(plain(key, 12) != plain(key, 13) for key in keys) / MILLION
    assert moved <= 0.085
    assert moved == pytest.approx(1 / 13, abs=0.002)
    assert moved_by_modulo == pytest.approx(12 / 13, abs=0.005)
    for placed, count in ((before, 12), (after, 13)):
        loads = Counter(placed)
        assert len(loads) == count
        assert max(loads.values()) / (MILLION / count) <= 1.02
