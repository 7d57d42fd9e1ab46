"""The hashes of keys, as columns.

Spark's SQL lacks murmur2. Catalyst's ``StaticInvoke`` calls a Java method of a jar that Spark ships, in the
code that it compiles: nothing has to be installed on the executors. It is reached through py4j and is no
public interface of Spark, so it is for classic sessions, and only where it gives known answers: a wrong hash
moves keys to other partitions without anybody noticing. Elsewhere (Spark Connect) Python computes the same,
many times slower.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.log import get_logger
from kafka_partition_events.routing import hashing
from kafka_partition_events.spark.partitioner import HashName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = get_logger(__name__)

JAVAS_ANSWERS: Final = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 0x106E08D9,
}
"""From the tests of the Java client; the empty key's from librdkafka's."""


_METHOD: Final = ("org.apache.commons.codec.digest.MurmurHash2", "hash32")
"""Of commons-codec; with its default seed it is the hash of Kafka's Java client."""
_chosen: dict[str, Callable[[Column], Column]] = {}
"""By application."""


def key_number(session: "SparkSession", key: Column, name: HashName) -> Column:
    """Return the number, 0 or more, whose remainder is a key's partition; null where there is no key.

    To librdkafka, whose hash is crc32, an empty key is none.
    """
    if name == "crc32":
        return F.when(F.octet_length(key) > 0, F.crc32(key))
    return murmur2(session, key).bitwiseAND(F.lit(0x7FFFFFFF))


def murmur2(session: "SparkSession", key: Column) -> Column:
    """Return the INT hash of a BINARY column; of a null, it is null.

    The first call in an application runs a small job, which asks the Java method for known answers.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):  # it has no JVM of its own
        return by_python(key)
    # `foreachBatch` hands out a new session each time.
    application = str(session.sparkContext.applicationId)
    if application not in _chosen:
        _chosen[application] = _right(session)
    return _chosen[application](key)


def by_python(key: Column) -> Column:
    """Return the same, by a function of this package, which workers import."""
    return F.udf(lambda data: None if data is None else hashing.murmur2(data), "int")(key)


def _right(session: "SparkSession") -> Callable[[Column], Column]:
    try:
        call = _static_method(session, *_METHOD)
        answers = list(_answers().items())
        rows = [(place, bytearray(key)) for place, (key, _) in enumerate(answers)]
        # Apart from the rows, or the driver would compute it, and not the code that executors run.
        frame = session.createDataFrame(rows, "place INT, key BINARY").repartition(1)
        asked = frame.select("place", call(F.col("key"), F.octet_length("key")).alias("found"))
        found = {row["place"]: row["found"] for row in asked.collect()}
        if all(found[place] == right for place, (_, right) in enumerate(answers)):
            return lambda key: call(key, F.octet_length(key))
        reason = "it gives wrong answers"
    except Exception as error:  # noqa: BLE001 - internals of Spark, which may be others in the next version
        reason = str(error).partition("\n")[0]
    _log.warning("java_hash_rejected", method=".".join(_METHOD), reason=reason)
    return by_python


def _answers() -> dict[bytes, int]:
    """Return the vectors, and keys of all lengths up to 40, most of them no valid UTF-8."""
    binary = [bytes((7 * place + 131 * length) % 256 for place in range(length)) for length in range(1, 41)]
    return {**JAVAS_ANSWERS, **{key: hashing.murmur2(key) for key in (*binary, b"\xff\xfe\x00\x80")}}


def _static_method(session: "SparkSession", owner: str, name: str) -> Callable[..., Column]:
    """Return what calls a static Java method that returns an int; of a null, it is a null."""
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - there is none in Connect
    from pyspark.sql.classic.column import _to_java_column  # noqa: PLC0415

    jvm: Any = session._jvm  # noqa: SLF001 - the only way to Catalyst's expressions
    spark_sql = jvm.org.apache.spark.sql
    expressions = spark_sql.classic.ExpressionUtils
    java_class = jvm.java.lang.Class.forName(owner)

    def call(*arguments: Column) -> Column:
        invoked = spark_sql.catalyst.expressions.objects.StaticInvoke(
            java_class,
            spark_sql.types.DataTypes.IntegerType,
            name,
            jvm.PythonUtils.toSeq([expressions.expression(_to_java_column(each)) for each in arguments]),
            jvm.PythonUtils.toSeq([]),  # the arguments have their types; none is to be cast
            True,  # a null argument makes the result null,
            False,  # and nothing else does: a result need not be boxed to find out
            True,  # deterministic
            jvm.scala.Option.empty(),
        )
        return ClassicColumn(expressions.column(invoked))

    return call
