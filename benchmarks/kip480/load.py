"""``python -m benchmarks.kip480.load JSON``: send one load, note when each record was sent and reported.

Says ``ready`` on standard output when connected, waits for a line with the time to begin (ns, monotonic),
warms up until then, sends, waits for what is outstanding, and writes the `Tape`. Its measures are the CPU
seconds of this process from the beginning on, when it stopped to wait, and librdkafka's account of batches.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Self

from attrs import asdict, frozen
from confluent_kafka import Producer

from benchmarks.faults.load import Load, begin_when_told, send_paced, speak_on_stderr
from benchmarks.faults.senders import ConfluentSender
from benchmarks.faults.spec import Values
from benchmarks.faults.tape import Tape
from benchmarks.kip480.plan import DRAIN_S, OURS, RATE, WARM_UP_S
from kafka_partition_events import AdaptivePartitioner, UniformStickyPartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer

_NS = 1_000_000_000
_STATISTICS_MS = 1_000


@frozen
class Spec:
    """What one instance is told; the names are those of the `Cell`."""

    kind: str
    bootstrap: str
    topic: str
    run: str
    index: int
    partitions: int
    linger_ms: int
    batch_bytes: int | None
    records: int
    keyed: bool
    out: Path

    def command(self) -> list[str]:
        told = json.dumps({**asdict(self), "out": str(self.out)})
        return [sys.executable, "-m", "benchmarks.kip480.load", told]

    @classmethod
    def parse(cls, text: str) -> Self:
        told = json.loads(text)
        return cls(**{**told, "out": Path(told["out"])})


class PlacingProducer(Producer):
    """Names the partition of each record, as applications do that bring a partitioner of their own."""

    def __init__(self, config: dict[str, Any], places: Iterator[int]) -> None:
        super().__init__(config)
        self._places = places

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        super().produce(topic, value, key, next(self._places), on_delivery=on_delivery)


def make_producer(spec: Spec, config: dict[str, Any]) -> Producer:
    if spec.kind == OURS:
        partitioner = UniformStickyPartitioner() if spec.keyed else AdaptivePartitioner()
        return PartitioningProducer(config, partitioner)
    if spec.kind == "librdkafka-5":
        return Producer({**config, "max.in.flight.requests.per.connection": 5})
    if spec.kind == "round-robin":
        return PlacingProducer(config, cycle(range(spec.partitions)))
    if spec.kind == "random":
        draw = random.Random(spec.run).randrange
        return PlacingProducer(config, (draw(spec.partitions) for _ in cycle([None])))
    return Producer(config)


def key_of(*, keyed: bool) -> Callable[[int], bytes | None]:
    """Return what makes the key of a record from its number: a thousand of them in turn, or none."""
    return (lambda number: b"key-%d" % (number % 1_000)) if keyed else (lambda _number: None)


def batches_of(statistics: Iterable[str], topic: str) -> tuple[int, int]:
    """Return the records and the batches that librdkafka has sent, by its statistics.

    Each of its windows holds the batches since the one before; the last one is missing.
    """
    records = batches = 0
    for text in statistics:
        window = json.loads(text)["topics"].get(topic, {}).get("batchcnt", {})
        records += window.get("sum", 0)
        batches += window.get("cnt", 0)
    return records, batches


def main(text: str) -> None:
    speak_on_stderr()
    spec = Spec.parse(text)
    tape, values, statistics = Tape.blank(spec.records), Values(spec.run), list[str]()
    config: dict[str, Any] = {
        "bootstrap.servers": spec.bootstrap,
        "acks": "all",
        "linger.ms": spec.linger_ms,
        "statistics.interval.ms": _STATISTICS_MS,
        "stats_cb": statistics.append,
        "allow.auto.create.topics": False,
        "log_level": 2,
    }
    if spec.batch_bytes is not None:
        config["batch.size"] = spec.batch_bytes
    producer = make_producer(spec, config)
    sender = ConfluentSender(producer, spec.topic, values, tape)
    load = Load(sender, RATE, values, key_of(keyed=spec.keyed), tape)
    begin_ns = begin_when_told()
    send_paced(load, begin_ns - round(WARM_UP_S * _NS), range(-round(RATE * WARM_UP_S), 0))
    cpu_before = time.process_time()
    send_paced(load, begin_ns, range(spec.records))
    sender.finish(DRAIN_S)
    tape.measures = {"cpu_s": time.process_time() - cpu_before, "ended_ns": time.monotonic_ns()}
    records, batches = batches_of(statistics, spec.topic)
    tape.measures |= {"batched": records, "batches": batches}
    tape.write(spec.out)
    producer.purge()  # else closing would wait for what a saturated cluster has not acknowledged yet
    sender.close()


if __name__ == "__main__":
    main(sys.argv[1])
