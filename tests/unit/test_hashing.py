"""Key hashes agree with Java, librdkafka and kafka-python, bit by bit, in C and in Python."""

import json
import random
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.routing import hashing

FILE = Path(__file__).parent.parent / "vectors" / "hashing.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
NAMES: list[hashing.HashName] = ["murmur2", "crc32", "fnv1a"]


@pytest.mark.parametrize("vector", VECTORS["java_murmur2_signed"], ids=lambda v: v["key"])
def test_murmur2_is_javas_signed_hash(vector: dict[str, Any]) -> None:
    assert hashing.murmur2(vector["key"].encode()) == vector["hash"]


@pytest.mark.parametrize("vector", VECTORS["librdkafka_hex"], ids=lambda v: v["key"] or "empty")
def test_every_hash_is_librdkafkas(vector: dict[str, Any]) -> None:
    key = vector["key"].encode()
    assert f"{hashing.murmur2(key) & 0xFFFFFFFF:08x}" == vector["murmur2"]
    assert f"{hashing.fnv1a(key):08x}" == vector["fnv1a"]
    assert f"{zlib.crc32(key):08x}" == vector["crc32"]


@pytest.mark.parametrize("vector", VECTORS["kafka_python_1000_partitions"], ids=lambda v: repr(v["key"]))
@pytest.mark.parametrize("implementation", ["installed", "python"])
def test_murmur2_partitions_are_kafka_pythons(vector: dict[str, Any], implementation: str) -> None:
    choose = hashing.key_hash("murmur2") if implementation == "installed" else hashing.murmur2_partition
    assert choose(vector["key"].encode(), 1000) == vector["partition"]


@pytest.mark.parametrize("name", NAMES)
def test_c_and_python_agree_on_100_000_random_keys(name: hashing.HashName) -> None:
    pytest.importorskip("confluent_kafka")
    fast = hashing.key_hash(name)
    slow = getattr(hashing, f"{name}_partition")
    assert fast is not slow
    rng = random.Random(20261121)
    for _ in range(100_000):
        key, count = rng.randbytes(rng.randrange(48)), rng.randrange(1, 10_001)
        assert fast(key, count) == slow(key, count), (key, count)


@pytest.mark.parametrize("name", NAMES)
def test_python_does_without_confluent_kafka(name: hashing.HashName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    choose = hashing.key_hash(name)
    assert choose.__module__ == hashing.__name__
    assert 0 <= choose(b"some key", 7) < 7


def test_an_unknown_hash_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="murmur2, crc32, fnv1a, not 'md5'"):
        hashing.key_hash("md5")  # type: ignore[arg-type]
