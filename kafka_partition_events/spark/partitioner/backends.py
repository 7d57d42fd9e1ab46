"""Kafka's key hash, Java's murmur2, as a column."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.routing import hashing
from kafka_partition_events.spark.errors import KeyHashError
from kafka_partition_events.spark.partitioner.jvm_function import (
    Backend,
    BackendName,
    JvmFunction,
    arrow_column,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVAS_ANSWERS: Final[Mapping[bytes, int]] = MappingProxyType({
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 0x106E08D9,
})  # fmt: skip
"""From the tests of the Java client; the empty key's from librdkafka's."""


def backend_of(session: "SparkSession", name: BackendName | None = None) -> Backend:
    """Return how keys are hashed in a session, and what was rejected.

    The first call in an application tries one way after the other, the fastest first, on known keys: a small
    Spark job each. Its finding is logged and remembered.

    Args:
        session: Classic or Connect.
        name: Try this one only.

    Raises:
        ConfigurationError: there is none of that name.
        KeyHashError: none gives Kafka's answers.
    """
    return KEY_HASH.backend_of(session, name)


def _numpy() -> Callable[..., Column]:
    from kafka_partition_events.spark.partitioner.numpy_hash import murmur2  # noqa: PLC0415 - imports NumPy

    return arrow_column(murmur2)


def _answers() -> dict[str | None, object]:
    """Return the vectors, and keys of all lengths up to 40, most of them no valid UTF-8."""
    binary = [bytes((7 * place + 131 * length) % 256 for place in range(length)) for length in range(1, 41)]
    return {
        **{_shown(key): answer for key, answer in JAVAS_ANSWERS.items()},
        None: None,
        **{_shown(key): hashing.murmur2(key) for key in (*binary, b"\xff\xfe\x00\x80")},
    }


def _shown(key: bytes) -> str:
    return f"0x{key.hex()}"


KEY_HASH: Final = JvmFunction(
    name="key hash",
    # Of commons-codec; with its default seed it is the hash of Kafka's Java client.
    method=("org.apache.commons.codec.digest.MurmurHash2", "hash32"),
    jvm=lambda key: (key, F.octet_length(key)),
    arrow=_numpy,
    answers=_answers,
    ask=lambda hash_of, text: hash_of(F.unhex(F.substring(text, 3, 100))),
    error=KeyHashError,
)
