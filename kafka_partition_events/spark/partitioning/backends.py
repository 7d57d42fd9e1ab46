"""Ways to compute Kafka's key hash in a session, and the choice of one that gives the right answers.

A wrong hash is worse than none: it moves keys to other partitions without anybody noticing. So each way is
tried on known keys before its first use in an application (one small job), and not used if it fails.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from attrs import field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.routing import hashing
from kafka_partition_events.spark.partitioning.errors import KeyHashError
from kafka_partition_events.spark.partitioning.jvm_hash import murmur2_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = get_logger(__name__)

BackendName = Literal["jvm", "arrow"]
"""``jvm``: an expression in the query, for classic sessions. ``arrow``: NumPy in Spark's Python workers."""

KeyHashColumn = Callable[[Column], Column]
"""BINARY -> INT: Java's murmur2, signed; of a null, a null."""

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


def _read_only(reasons: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(reasons))


@frozen
class Backend:
    """The way of hashing keys that a session uses.

    Attributes:
        name: Which one.
        rejected: Those that were tried before and are not used, with the reason.
        hash_of: BINARY column -> INT column, Java's murmur2.
    """

    name: BackendName
    rejected: Mapping[str, str] = field(converter=_read_only)
    hash_of: KeyHashColumn = field(repr=False)


_chosen: dict[tuple[str, BackendName | None], Backend] = {}


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
    if name not in {None, *get_args(BackendName)}:
        raise ConfigurationError(
            f"backend must be one of {', '.join(get_args(BackendName))}, or None, not {name!r}"
        )
    place = (_identity(session), name)
    if place not in _chosen:
        _chosen[place] = _first_that_works(session, (name,) if name else get_args(BackendName))
    return _chosen[place]


def _first_that_works(session: "SparkSession", names: Iterable[BackendName]) -> Backend:
    rejected: dict[str, str] = {}
    for name in names:
        fault = _fault(session, name)
        if fault is None:
            _log.info("key_hash_chosen", backend=name, rejected=rejected)
            return Backend(name, rejected, _makers()[name](session))
        _log.warning("key_hash_rejected", backend=name, reason=fault)
        rejected[name] = fault
    reasons = "; ".join(f"{name}: {fault}" for name, fault in rejected.items())
    raise KeyHashError(f"no way of hashing keys gives Kafka's answers in this session ({reasons})")


def _makers() -> Mapping[BackendName, Callable[["SparkSession"], KeyHashColumn]]:
    return {"jvm": _jvm_hash, "arrow": _arrow_hash}


def _jvm_hash(session: "SparkSession") -> KeyHashColumn:
    if is_connect(session):
        raise KeyHashError("a Spark Connect session has no JVM of its own")
    return lambda key: murmur2_column(session, key)


def _arrow_hash(_session: "SparkSession") -> KeyHashColumn:
    from pyspark.cloudpickle import register_pickle_by_value  # noqa: PLC0415
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - imports PyArrow

    from kafka_partition_events.spark.partitioning import numpy_hash  # noqa: PLC0415 - imports NumPy

    # The workers need not have this package.
    register_pickle_by_value(numpy_hash)  # type: ignore[no-untyped-call]
    make: Any = arrow_udf  # its stub wants the kind that it finds out itself, from the annotations
    hash_of: KeyHashColumn = make(numpy_hash.murmur2, "int")
    return hash_of


def _identity(session: "SparkSession") -> str:
    """Return what tells one application from another. `foreachBatch` hands out a new session each time."""
    if is_connect(session):
        return str(getattr(session, "session_id", id(session)))
    return str(session.sparkContext.applicationId)


def is_connect(session: "SparkSession") -> bool:
    """Tell whether a session talks to a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


# -- the self-test ---------------------------------------------------------------------------------------


def _fault(session: "SparkSession", name: BackendName) -> str | None:
    """Return what is wrong with a way of hashing; None if it gives the right answers."""
    try:
        hash_of = _makers()[name](session)
        keys = _probes()
        answers = _frame(session, keys).select("id", hash_of(F.col("key")).alias("hash")).collect()
    except Exception as error:  # noqa: BLE001 - internals of Spark, and whatever is missing in a worker
        return _first_line(error)
    found: dict[int, int | None] = {row["id"]: row["hash"] for row in answers}
    for place, key in enumerate(keys):
        expected = None if key is None else JAVAS_ANSWERS.get(key, hashing.murmur2(key))
        if place not in found or found[place] != expected:
            shown = "null" if key is None else f"0x{key.hex()}"
            return f"the hash of {shown} is {expected}, not {found.get(place, 'missing')}"
    return None


def _probes() -> list[bytes | None]:
    """Return keys of all lengths up to 40, most of them no valid UTF-8, the vectors, and a null."""
    binary = [bytes((7 * place + 131 * length) % 256 for place in range(length)) for length in range(41)]
    return [*JAVAS_ANSWERS, None, *binary, b"\xff\xfe\x00\x80"]


def _frame(session: "SparkSession", keys: list[bytes | None]) -> DataFrame:
    """Return the keys as a frame that executors have to compute: a constant one never leaves the driver."""
    texts = F.split(F.lit(",".join("" if key is None else key.hex() for key in keys)), ",")
    place = F.col("id").cast("int")
    key = F.when(place != keys.index(None), F.unhex(F.get(texts, place)))
    return session.range(0, len(keys), 1, 1).select("id", key.alias("key"))


def _first_line(error: BaseException) -> str:
    """Return the telling part of an error: of a Python worker's traceback, the last line."""
    text = str(error).partition("\n\tat ")[0]
    lines: list[Any] = [line.strip() for line in text.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if "Error: " in line), lines[0] if lines else "")
    return f"{type(error).__name__}: {told}"[:300]
