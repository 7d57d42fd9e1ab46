"""Java's murmur2 as an expression that Spark compiles into the query, without a Python worker.

Spark ships commons-codec, whose ``MurmurHash2.hash32(byte[], int)`` is, with its default seed, the hash of
Kafka's Java client. Catalyst's ``StaticInvoke`` calls it; nothing has to be installed on the executors. Both
are reached through py4j and are not a public interface of Spark, so this works with a classic session only,
and `backends` tests it before use.
"""

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS: Final = "org.apache.commons.codec.digest.MurmurHash2"


def murmur2_column(session: "SparkSession", key: Column) -> Column:
    """Return the signed 32-bit hash of a BINARY column as INT; of a null, a null.

    Raises:
        Exception: of many kinds, if the session has no JVM of its own or other internals than expected.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn  # noqa: PLC0415 - there is none in Connect
    from pyspark.sql.classic.column import _to_java_column  # noqa: PLC0415

    jvm: Any = session._jvm  # noqa: SLF001 - the only way to Catalyst's expressions
    spark_sql = jvm.org.apache.spark.sql
    expressions = spark_sql.classic.ExpressionUtils
    arguments = [expressions.expression(_to_java_column(each)) for each in (key, F.octet_length(key))]
    call = spark_sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(_CLASS),
        spark_sql.types.DataTypes.IntegerType,
        "hash32",
        jvm.PythonUtils.toSeq(arguments),
        jvm.PythonUtils.toSeq([]),  # the arguments have their types; none is to be cast
        True,  # a null argument makes the result null,
        False,  # and nothing else does: a result need not be boxed to find out
        True,  # deterministic
        jvm.scala.Option.empty(),
    )
    return ClassicColumn(expressions.column(call))
