"""The jump hash as a column: `routing.jump` of a column of numbers, number for number.

In a classic session it is Guava's own function, of a jar that Spark ships: Catalyst calls it in the code
that it compiles. Elsewhere (Spark Connect, or a Spark that hides its Guava) it is NumPy's, in an
``arrow_udf``. Either is held against `routing.jump` before its first use in an application, by a small job.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.log import get_logger
from kafka_partition_events.routing.jump import jump
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.partitioning.backends import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JumpBackend = Literal["jvm", "arrow"]

JumpColumn = Callable[[Column, int], Column]
"""A BIGINT column of numbers, 0 or more, and how many partitions there are -> INT; of a null, a null."""

WIDTH: Final = 0x7FFFFFFF
"""What a hash is reduced to before it jumps, in Python: ``key_hash(key, WIDTH)``."""

_GUAVA: Final = "com.google.common.hash.Hashing"
_COUNTS: Final = (1, 2, 13, 1_000)
_PROBES: Final = 200
_SPREAD: Final = 0x9E3779B1

_log = get_logger(__name__)
_chosen: dict[str, JumpBackend] = {}


def jump_column(session: "SparkSession", backend: JumpBackend | None = None) -> JumpColumn:
    """Return what computes jump hashes.

    Args:
        session: Classic or Connect.
        backend: How; by default the fastest way that gives the right answers in this session.

    Raises:
        SparkJobError: none does; the message tells of each one why.
    """
    if backend is None:
        place = str(getattr(session, "session_id", None) or session.sparkContext.applicationId)
        if place not in _chosen:
            _chosen[place] = _first_that_works(session)
        backend = _chosen[place]
    return _MAKERS[backend](session)


def _first_that_works(session: "SparkSession") -> JumpBackend:
    rejected: dict[str, str] = {}
    for name in _MAKERS:
        fault = _fault(session, name)
        if fault is None:
            _log.info("jump_hash_chosen", backend=name, rejected=rejected)
            return name
        _log.warning("jump_hash_rejected", backend=name, reason=fault)
        rejected[name] = fault
    reasons = "; ".join(f"{name}: {fault}" for name, fault in rejected.items())
    raise SparkJobError(
        f"the mapping rendezvous can't be computed rightly in this session ({reasons}); leave it out"
    )


def _fault(session: "SparkSession", name: JumpBackend) -> str | None:
    """Return what is wrong with a way of jumping; None if it gives the right answers."""
    try:
        jumping = _MAKERS[name](session)
        # Computed on executors: Spark folds a constant frame in the driver, by other code.
        numbers = session.range(0, _PROBES, 1, 1).select((F.col("id") * _SPREAD % WIDTH).alias("number"))
        columns = (jumping(F.col("number"), count).alias(f"to_{count}") for count in _COUNTS)
        rows = numbers.select("number", *columns).collect()
    except Exception as error:  # noqa: BLE001 - internals of Spark, and whatever is missing in a worker
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    for row in rows:
        for count in _COUNTS:
            if row[f"to_{count}"] != (right := jump(row["number"], count)):
                return f"{row['number']} jumps to {right} of {count}, not to {row[f'to_{count}']}"
    return None if len(rows) == _PROBES else "rows are missing"


def _guava(session: "SparkSession") -> JumpColumn:
    if is_connect(session):
        raise SparkJobError("a Spark Connect session has no JVM of its own")
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - there is none in Connect
    from pyspark.sql.classic.column import _to_java_column  # noqa: PLC0415

    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Catalyst's expressions
    spark_sql = jvm.org.apache.spark.sql
    expressions = spark_sql.classic.ExpressionUtils
    hashing = jvm.java.lang.Class.forName(_GUAVA)

    def jumping(numbers: Column, count: int) -> Column:
        arguments = [expressions.expression(_to_java_column(each)) for each in (numbers, F.lit(count))]
        call = spark_sql.catalyst.expressions.objects.StaticInvoke(
            hashing,
            spark_sql.types.DataTypes.IntegerType,
            "consistentHash",
            jvm.PythonUtils.toSeq(arguments),
            jvm.PythonUtils.toSeq([]),  # the arguments have their types; none is to be cast
            True,  # a null makes the result null,
            False,  # and nothing else does: a result need not be boxed to find out
            True,  # deterministic
            jvm.scala.Option.empty(),
        )
        return ClassicColumn(expressions.column(call))

    return jumping


def _numpy(_session: "SparkSession") -> JumpColumn:
    from pyspark import cloudpickle  # noqa: PLC0415
    from pyspark.sql.types import IntegerType  # noqa: PLC0415

    from kafka_partition_events.spark.whatif import numpy_jump  # noqa: PLC0415 - imports NumPy

    untyped: Any = cloudpickle
    untyped.register_pickle_by_value(numpy_jump)  # the workers need not have this package
    functions: Any = F

    def jumping(numbers: Column, count: int) -> Column:
        column: Column = functions.arrow_udf(numpy_jump.jumping_to(count), IntegerType())(numbers)
        return column

    return jumping


_MAKERS: Final[Mapping[JumpBackend, Callable[["SparkSession"], JumpColumn]]] = {
    "jvm": _guava,
    "arrow": _numpy,
}
