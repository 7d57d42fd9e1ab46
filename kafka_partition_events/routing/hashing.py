"""The key hashes that Kafka's clients agree on, bit by bit.

``murmur2`` is Java's ``Utils.murmur2`` and kafka-python's default; ``crc32`` is librdkafka's ``consistent``,
its default; ``fnv1a`` is librdkafka's and Sarama's. One topic should be written with one of them: a change of
hash moves keys to other partitions.

confluent-kafka's C functions are used where that package is installed (about 0.1 us a key), the Python
functions of this module otherwise (1 to 10 us); they give equal answers.
"""

import struct
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Literal, cast, get_args

from kafka_partition_events.errors import ConfigurationError

KeyHash = Callable[[bytes, int], int]
"""``(key, number of partitions) -> partition``."""

HashName = Literal["murmur2", "crc32", "fnv1a"]

EMPTY_IS_NO_KEY: frozenset[HashName] = frozenset({"crc32"})
"""librdkafka's default (``consistent_random``) treats an empty key as none; with the other hashes, and in all
other clients, it has a partition like any other."""

_WORD = struct.Struct("<I")
_MASK = 0xFFFFFFFF
_MURMUR_SEED = 0x9747B28C
_MURMUR_M = 0x5BD1E995
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def murmur2(data: bytes) -> int:
    """Return Java's 32-bit MurmurHash2, signed as in Java."""
    length = len(data)
    h = _MURMUR_SEED ^ length
    whole = length & ~3
    for (k,) in _WORD.iter_unpack(data[:whole]):
        k = k * _MURMUR_M & _MASK  # noqa: PLW2901 - the algorithm mixes the word in place
        k ^= k >> 24  # noqa: PLW2901
        h = (h * _MURMUR_M & _MASK) ^ (k * _MURMUR_M & _MASK)
    if length != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _MURMUR_M & _MASK
    h ^= h >> 13
    h = h * _MURMUR_M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def fnv1a(data: bytes) -> int:
    """Return librdkafka's FNV-1a: the absolute value of the signed 32-bit hash, as in Sarama."""
    h = _FNV_OFFSET
    for byte in data:
        h = (h ^ byte) * _FNV_PRIME & _MASK
    return (1 << 32) - h if h >> 31 else h


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Return the partition that the Java client chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def crc32_partition(key: bytes, partitions: int) -> int:
    """Return the partition that librdkafka's ``consistent`` chooses for a key."""
    return zlib.crc32(key) % partitions


def fnv1a_partition(key: bytes, partitions: int) -> int:
    """Return the partition that librdkafka's ``fnv1a`` chooses for a key."""
    return fnv1a(key) % partitions


_PYTHON: dict[str, KeyHash] = {
    "murmur2": murmur2_partition,
    "crc32": crc32_partition,
    "fnv1a": fnv1a_partition,
}
_IN_C = {"murmur2": "murmur2", "crc32": "consistent", "fnv1a": "fnv1a"}


def key_hash(name: HashName) -> KeyHash:
    """Return the fastest implementation of a hash that is installed, which may take bytes only.

    This imports confluent-kafka if that is installed, so it happens when a partitioner is made.

    Raises:
        ConfigurationError: there is no hash of that name.
    """
    if name not in _PYTHON:
        raise ConfigurationError(f"hash_name must be one of {', '.join(get_args(HashName))}, not {name!r}")
    try:
        return cast("KeyHash", getattr(import_module("confluent_kafka"), _IN_C[name]))
    except (ImportError, AttributeError):  # not installed, or older than 2.13, which added the functions
        return _PYTHON[name]


def of_any_bytes(hashed: KeyHash) -> KeyHash:
    """Return a hash that takes bytearrays and memoryviews, too, as kafka-python does."""

    def hash_(key: bytes, partitions: int) -> int:
        try:
            return hashed(key, partitions)
        except TypeError:  # the C functions take bytes only
            if not isinstance(key, bytearray | memoryview):
                raise
            return hashed(bytes(key), partitions)

    return hash_
