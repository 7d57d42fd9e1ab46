"""``python -m tests.chaos.soak_load NAME RATE BOOTSTRAP FILE``: one writer at a steady rate, until SIGTERM.

Each second it adds a line to its file: what it has counted so far. Nothing is noted of single records.
"""

import json
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from attrs import asdict
from confluent_kafka import KafkaException
from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from tests.chaos.diary import stopped_by_sigterm
from tests.chaos.steady import WRITERS, Counts, Pace

PARTITIONS: Final = 6
DELIVERY_S: Final = 120
"""Kafka's default; librdkafka's own is five minutes."""
FINISH_S: Final = 2.0 * DELIVERY_S
"""What is sent again has a time-out of its own."""
_TICK_S: Final = 0.02
_LINE_S: Final = 1.0
_VALUE: Final = b"." * 100
_KEYED_EACH: Final = 5
_KEYS: Final = [b"key-%d" % number for number in range(1_000)]


class Tally:
    """Counts outcomes, and adds up whose they are. Thread-safe: kafka-python reports on several threads.

    A set of numbers would grow all the time, and memory is what is measured.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self._acked = [0] * PARTITIONS
        self._failed: Counter[str] = Counter()
        self._balance = 0

    def sent(self, first: int, count: int) -> None:
        with self._lock:
            self._sent += count
            self._balance += sum(range(first, first + count))

    def acked(self, number: int, partition: int) -> None:
        with self._lock:
            self._acked[partition] += 1
            self._balance -= number

    def failed(self, number: int, error: str) -> None:
        with self._lock:
            self._failed[error] += 1
            self._balance -= number

    def counts(self, skipped: int) -> Counts:
        with self._lock:
            acked, failed = tuple(self._acked), dict(self._failed)
            return Counts(time.time(), self._sent, acked, failed, skipped, self._balance)


class Sender(Protocol):
    """One client."""

    def send(self, first: int, count: int) -> int:
        """Send records and return how many were taken; those that were refused have failed."""

    def serve(self) -> None: ...
    def close(self) -> None: ...


class ConfluentSender:
    def __init__(self, name: str, bootstrap: str, tally: Tally) -> None:
        self._topic, self._tally = name, tally
        settings = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": 1_000 * DELIVERY_S,
            # Each of three replicas is on each of three brokers: one that hangs holds up all writes until its
            # session ends, after 9 s. At 14,000 records/s the default of 100,000 is full by then.
            "queue.buffering.max.messages": 200_000,
            "allow.auto.create.topics": False,
            "log_level": 2,
        }
        self._producer = PartitioningProducer(settings, rescue=WRITERS[name].rescue)

    def send(self, first: int, count: int) -> int:
        produce, topic, heard = self._producer.produce, self._topic, self._heard
        for number in range(first, first + count):
            try:
                produce(topic, _VALUE, _key_of(number), on_delivery=partial(heard, number))
            except BufferError:  # the queue is full: nothing is sent until there is room
                return number - first
            except KafkaException as error:
                self._tally.failed(number, f"refused: {error.args[0].name()}")
        return count

    def _heard(self, number: int, error: Any, message: Any) -> None:
        if error is None:
            self._tally.acked(number, message.partition())
        else:
            self._tally.failed(number, error.name())

    def serve(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(FINISH_S)
        self._producer.close()


class KafkaPythonSender:
    def __init__(self, name: str, bootstrap: str, tally: Tally) -> None:
        self._topic, self._tally = name, tally
        self._producer: Any = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            client_id=name,
            acks="all",
            enable_idempotence=True,
            delivery_timeout_ms=1_000 * DELIVERY_S,
            linger_ms=5,
            partitioner=DefaultPartitioner(),
        )
        attach(self._producer, rescue=WRITERS[name].rescue)

    def send(self, first: int, count: int) -> int:
        for number in range(first, first + count):
            try:
                future = self._producer.send(self._topic, _VALUE, _key_of(number))
            except KafkaError as error:
                self._tally.failed(number, f"refused: {type(error).__name__}")
            else:
                future.add_both(partial(self._heard, number))
        return count

    def _heard(self, number: int, answer: Any) -> None:
        if isinstance(answer, BaseException):
            self._tally.failed(number, type(answer).__name__)
        else:
            self._tally.acked(number, answer.partition)

    def serve(self) -> None:
        """Do nothing: this client has a thread of its own."""

    def close(self) -> None:
        deadline = time.monotonic() + FINISH_S
        while self._tally.counts(0).unanswered > 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        self._producer.close(timeout=10)


def _key_of(number: int) -> bytes | None:
    turn, unkeyed = divmod(number, _KEYED_EACH)
    return None if unkeyed else _KEYS[turn % len(_KEYS)]


def main(name: str, rate: float, bootstrap: str, path: Path) -> None:
    stop, tally = stopped_by_sigterm(), Tally()
    sender: Sender = (ConfluentSender if WRITERS[name].client == "confluent" else KafkaPythonSender)(
        name, bootstrap, tally
    )
    with path.open("a", buffering=1) as file:
        pace = Pace(rate, time.monotonic())
        next_line = pace.began
        while not stop.wait(_TICK_S):
            taken = sender.send(pace.done, pace.due(time.monotonic()))
            tally.sent(pace.done, taken)
            pace.done += taken
            sender.serve()
            if time.monotonic() >= next_line:
                next_line += _LINE_S
                file.write(json.dumps(asdict(tally.counts(pace.skipped))) + "\n")
        sender.close()
        file.write(json.dumps(asdict(tally.counts(pace.skipped))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
