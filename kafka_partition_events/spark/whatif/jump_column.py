"""The jump hash as a column: `routing.jump` of a column of numbers, number for number."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from kafka_partition_events.routing.jump import jump
from kafka_partition_events.spark.partitioning.jvm_function import JvmFunction, arrow_column

WIDTH: Final = 0x7FFFFFFF
"""What a hash is reduced to before it jumps, in Python: ``key_hash(key, WIDTH)``."""

_COUNTS: Final = (1, 2, 13, 1_000)
_PROBES: Final = 200
_SPREAD: Final = 0x9E3779B1


def _numpy() -> Callable[..., Column]:
    from kafka_partition_events.spark.whatif import numpy_jump  # noqa: PLC0415 - imports NumPy

    return lambda numbers, count: arrow_column(numpy_jump.jumping_to(count), numpy_jump)(numbers)


def _answers() -> dict[str | None, object]:
    numbers = [place * _SPREAD % WIDTH for place in range(_PROBES)]
    answers: dict[str | None, object] = {None: [None] * len(_COUNTS)}
    answers.update({str(number): [jump(number, count) for count in _COUNTS] for number in numbers})
    return answers


JUMP: Final = JvmFunction(
    name="jump hash",
    method=("com.google.common.hash.Hashing", "consistentHash"),  # Guava's, of a jar that Spark ships
    jvm=lambda numbers, count: (numbers, F.lit(count)),
    arrow=_numpy,
    answers=_answers,
    ask=lambda jumping, text: F.array(*(jumping(text.cast("bigint"), count) for count in _COUNTS)),
    cure="; leave the mapping rendezvous out",
)
"""Of a BIGINT column of numbers, 0 or more, and how many partitions there are."""
