"""``python -m tests.chaos.spark_load TASK``: Spark writes batches to ``orders`` until SIGTERM."""

import sys
from typing import Final

from kafka_partition_events.spark.partition_column import write_to_kafka
from kafka_partition_events.spark.session import opened_session
from tests.chaos.diary import Diary, Task, stopped_by_sigterm
from tests.chaos.promises import DELIVERY_S, KEYS

ROWS: Final = 200
_PAUSE_S = 10.0
_OPTIONS: Final = {
    "delivery.timeout.ms": str(round(1_000 * DELIVERY_S)),
    "request.timeout.ms": "8000",
    "max.block.ms": "20000",
}


def main(text: str) -> None:
    task, stop = Task.parse(text), stopped_by_sigterm()
    diary, batch = Diary(task.diary), 0
    with opened_session() as spark:
        diary.note("begin")
        while not stop.wait(_PAUSE_S):
            numbers = range(batch * ROWS, (batch + 1) * ROWS)
            keys = [f"{task.name}-{number % KEYS}" if number % 2 else None for number in numbers]
            for number, key in zip(numbers, keys, strict=True):
                diary.intends(number, "orders", key)
            values = [f"{task.name}.{task.run}/{number} " for number in numbers]
            rows = spark.createDataFrame(list(zip(keys, values, strict=True)), "key string, value string")
            try:
                write_to_kafka(
                    rows,
                    topic="orders",
                    cluster=task.bootstrap,
                    options=_OPTIONS,
                )
            except Exception as error:  # noqa: BLE001 - whatever Spark says, the batch may not be there
                for number in numbers:
                    diary.failed(number, type(error).__name__)
            else:
                for number in numbers:
                    diary.acked(number, None, None)
            batch += 1
        diary.note("stop")
    diary.note("end")


if __name__ == "__main__":
    main(sys.argv[1])
