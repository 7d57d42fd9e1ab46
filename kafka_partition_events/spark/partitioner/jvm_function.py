"""Hashes that Spark's JVM has and its SQL lacks, as columns, each tried on known answers before use.

Catalyst's ``StaticInvoke`` calls a Java method of a jar that Spark ships, in the code that it compiles:
nothing has to be installed on the executors. It is reached through py4j and is no public interface of Spark,
so this is for classic sessions. Elsewhere NumPy computes the same in an ``arrow_udf``. A wrong hash is worse
than none: it moves keys to other partitions without anybody noticing. So a small job asks each way first.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from attrs import field, frozen
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.spark.errors import SparkJobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = get_logger(__name__)

BackendName = Literal["jvm", "arrow"]
"""``jvm``: an expression in the query, for classic sessions. ``arrow``: NumPy in Spark's Python workers."""

_BACKENDS: Final[tuple[BackendName, ...]] = get_args(BackendName)


@frozen
class Backend:
    """The way of hashing that a session uses.

    Attributes:
        name: Which one.
        rejected: Those that were tried before and are not used, with the reason.
        hash_of: Returns the INT column. Of keys: of a BINARY column, Java's murmur2.
    """

    name: BackendName
    rejected: Mapping[str, str]
    hash_of: Callable[..., Column] = field(repr=False)


@frozen(kw_only=True, eq=False)
class JvmFunction:
    """A hash, the ways to compute it, and answers that they must give.

    Attributes:
        name: What it is called.
        jvm: Returns the columns that the method is called with, from those that it is asked about.
        method: The static Java method, which returns an int: class and name.
        arrow: Returns what computes it by NumPy.
        answers: What is right, by a probe's text; None is null.
        ask: Returns the column of answers, from a way of hashing and a column of those texts.
        error: What is raised where no way is right.
        cure: What to do then, in words.
    """

    name: str
    method: tuple[str, str]
    jvm: Callable[..., tuple[Column, ...]]
    arrow: Callable[[], Callable[..., Column]]
    answers: Callable[[], Mapping[str | None, object]]
    ask: Callable[[Callable[..., Column], Column], Column]
    error: type[SparkJobError] = SparkJobError
    cure: str = ""
    _chosen: dict[tuple[str, BackendName | None], Backend] = field(factory=dict, init=False)

    def backend_of(self, session: "SparkSession", name: BackendName | None = None) -> Backend:
        """Return how a session computes it, and what was rejected; see `backends.backend_of`.

        Raises:
            ConfigurationError: there is no way of that name.
            SparkJobError: none gives the right answers; the message tells of each one why.
        """
        if name not in {None, *_BACKENDS}:
            raise ConfigurationError(f"backend must be one of {', '.join(_BACKENDS)}, or None, not {name!r}")
        place = (_identity(session), name)
        if place not in self._chosen:
            self._chosen[place] = self._first_that_works(session, (name,) if name else _BACKENDS)
        return self._chosen[place]

    def _first_that_works(self, session: "SparkSession", names: Iterable[BackendName]) -> Backend:
        rejected: dict[str, str] = {}
        event = self.name.replace(" ", "_")
        for name in names:
            try:
                hash_of = self._made(session, name)
                fault = self._fault(session, hash_of)
            except Exception as error:  # noqa: BLE001 - internals of Spark, and whatever is missing in a worker
                fault = _first_line(error)
            if fault is None:
                _log.info(f"{event}_chosen", backend=name, rejected=rejected)
                return Backend(name, MappingProxyType(rejected), hash_of)
            _log.warning(f"{event}_rejected", backend=name, reason=fault)
            rejected[name] = fault
        reasons = "; ".join(f"{name}: {fault}" for name, fault in rejected.items())
        raise self.error(f"no way gives the right {self.name} in this session ({reasons}){self.cure}")

    def _made(self, session: "SparkSession", name: BackendName) -> Callable[..., Column]:
        """Return a way of hashing, untried."""
        if name == "arrow":
            return self.arrow()
        if is_connect(session):
            raise self.error("a Spark Connect session has no JVM of its own")
        call = _static_method(session, *self.method)
        return lambda *asked: call(*self.jvm(*asked))

    def _fault(self, session: "SparkSession", hash_of: Callable[..., Column]) -> str | None:
        """Return what is wrong with a way of hashing; None if it gives the right answers."""
        answers = list(self.answers().items())
        frame = _frame(session, [text for text, _ in answers])
        rows = frame.select("id", self.ask(hash_of, F.col("text")).alias("found")).collect()
        found: dict[int, object] = {row["id"]: row["found"] for row in rows}
        for place, (text, right) in enumerate(answers):
            if place not in found or found[place] != right:
                shown = "null" if text is None else text
                return f"the {self.name} of {shown} is {right}, not {found.get(place, 'missing')}"
        return None


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


def arrow_column(function: Callable[..., Any]) -> Callable[..., Column]:
    """Return a function of Arrow arrays to INT32 ones as one of columns; workers need not have its module."""
    from pyspark.cloudpickle import register_pickle_by_value  # noqa: PLC0415
    from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415 - imports PyArrow

    register_pickle_by_value(sys.modules[function.__module__])  # type: ignore[no-untyped-call]
    make: Any = arrow_udf  # its stub wants the kind that it finds out itself, from the annotations
    column: Callable[..., Column] = make(function, "int")
    return column


def is_connect(session: "SparkSession") -> bool:
    """Tell whether a session talks to a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _identity(session: "SparkSession") -> str:
    """Return what tells one application from another. `foreachBatch` hands out a new session each time."""
    if is_connect(session):
        return str(getattr(session, "session_id", id(session)))
    return str(session.sparkContext.applicationId)


def _frame(session: "SparkSession", texts: list[str | None]) -> DataFrame:
    """Return the texts as a frame that executors have to compute: a constant one never leaves the driver."""
    known = F.split(F.lit(",".join(text or "" for text in texts)), ",")
    place = F.col("id").cast("int")
    text = F.when(place != texts.index(None), F.get(known, place))
    return session.range(0, len(texts), 1, 1).select("id", text.alias("text"))


def _first_line(error: BaseException) -> str:
    """Return the telling part of an error: of Java's stack the cause, of Python's traceback the end."""
    text = str(error).partition("\n\tat ")[0]
    lines: list[Any] = [line.strip(" :") for line in text.splitlines() if line.strip()]
    causes = (line for line in reversed(lines) if "Error: " in line or "Exception: " in line)
    told = next(causes, lines[0] if lines else "")
    return f"{type(error).__name__}: {told}"[:300]
