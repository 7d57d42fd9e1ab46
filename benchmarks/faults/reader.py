"""``python -m benchmarks.faults.reader SPEC``: read by an `OrderedConsumer` what a load sends.

Says ``ready`` when it has its partitions and waits for a line, as the load does. Ends when all was handed
out, or a while after the load; writes a JSON list of the number of each record and when it came (ns).
"""

import json
import sys
import time

from benchmarks.errors import BenchError
from benchmarks.faults.load import FINISH_LIMIT_S, begin_when_told, speak_on_stderr
from benchmarks.faults.spec import LoadSpec, parse_value
from kafka_partition_events.clients.confluent import OrderedConsumer

_ASSIGNED_WITHIN_S = 40.0
_AFTER_S = 3.0  # records that failed at the very end of the load may be there all the same
_NS = 1_000_000_000


def read(spec: LoadSpec, consumer: OrderedConsumer) -> list[tuple[int, int]]:
    """Return the number of each record of the load in the order of reading, and when it came (ns)."""
    assigned_by = time.monotonic() + _ASSIGNED_WITHIN_S
    while not consumer.assignment():
        consumer.poll(0.1)
        if time.monotonic() > assigned_by:
            raise BenchError("the reader got no partitions")
    end_ns = begin_when_told() + round((spec.records / spec.rate + FINISH_LIMIT_S + _AFTER_S) * _NS)
    found: list[tuple[int, int]] = []
    missing = set(range(spec.records))
    while missing and time.monotonic_ns() < end_ns:
        if (message := consumer.poll(0.1)) is None or message.error() is not None:
            continue
        _, number = parse_value(message.value() or b"")
        if number >= 0:
            found.append((number, time.monotonic_ns()))
            missing.discard(number)
    return found


def main(told: str) -> None:
    speak_on_stderr()
    spec = LoadSpec.parse(told)
    config = {"bootstrap.servers": spec.bootstrap, "group.id": spec.run, "auto.offset.reset": "earliest"}
    with OrderedConsumer({**config, "log_level": 2}) as consumer:
        consumer.subscribe([spec.topic])
        spec.out.write_text(json.dumps(read(spec, consumer)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
