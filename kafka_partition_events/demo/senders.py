"""The producers that take part, behind one small interface. What became of a record goes to the tape."""

import contextlib
import json
import sys
import threading
import time
from collections import Counter
from functools import partial
from typing import Any, Protocol

from attrs import define, field

from kafka_partition_events.demo.plan import DELIVERY_LIMIT_MS, LINGER_MS, REQUEST_LIMIT_MS, Part
from kafka_partition_events.demo.tape import Tape
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller

_CONNECT_LIMIT_S = 30.0


@define
class Notes:
    """Where a process puts what it sees. Thread-safe.

    Attributes:
        tape: What became of each record.
        causes: Why records failed: the client's name of the error -> how many.
    """

    tape: Tape
    causes: Counter[str] = field(factory=Counter)
    _lock: threading.Lock = field(factory=threading.Lock)

    def report(self, number: int, error: str | None) -> None:
        """Note what a callback said."""
        self.tape.report(number, delivered=error is None)
        if error is not None:
            with self._lock:
                self.causes[error] += 1

    def notify(self, **what: object) -> None:
        """Send the parent a message, on a line of standard output."""
        line = json.dumps({"at": time.monotonic_ns(), **what})
        with self._lock:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


class Sender(Protocol):
    """What a load needs of a producer."""

    def send(self, number: int, value: bytes, key: bytes | None) -> None:
        """Send one record."""

    def wait(self, seconds: float) -> None:
        """Let so much time pass, and delivery reports in."""

    def finish(self, seconds: float) -> None:
        """Wait until every record has been reported on; the end of the process releases all else."""


def confluent_config(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings that confluent-kafka and ours have; all else is the client's default."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "acks": "all",
        "linger.ms": LINGER_MS,
        "message.timeout.ms": DELIVERY_LIMIT_MS,
        "allow.auto.create.topics": False,
        "log_level": 2,
    }


class ConfluentSender:
    """A ``confluent_kafka.Producer``, or ours."""

    def __init__(self, bootstrap_servers: str, part: Part, notes: Notes) -> None:
        """Connect."""
        from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - of its own processes only

        config = confluent_config(bootstrap_servers)
        self._refusal = KafkaException
        self._topic = part.topic
        self._notes = notes
        if part.ours:
            from kafka_partition_events.clients.confluent import PartitioningProducer  # noqa: PLC0415

            options: dict[str, Any] = dict(part.options)
            self._producer: Any = PartitioningProducer(config, **options)
            report_judgements(self._producer.poller, notes)
        else:
            self._producer = Producer(config)
        self._producer.list_topics(part.topic, timeout=_CONNECT_LIMIT_S)

    def send(self, number: int, value: bytes, key: bytes | None) -> None:
        """Send one record."""
        try:
            self._producer.produce(self._topic, value, key, on_delivery=partial(self._reported, number))
        except (self._refusal, BufferError) as error:
            self._notes.report(number, type(error).__name__)

    def _reported(self, number: int, error: Any, _message: Any) -> None:
        self._notes.report(number, None if error is None else error.name())

    def wait(self, seconds: float) -> None:
        """Let delivery reports in; the wait ends early when one comes."""
        self._producer.poll(seconds)

    def finish(self, seconds: float) -> None:
        """Wait until every record has been reported on."""
        self._producer.flush(seconds)


class _Judgements(PartitionChangeListener):
    name = "demo"

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_broker_suspected(self, event: ev.BrokerSuspected) -> None:
        self._notes.notify(kind="suspected", broker=event.broker, why=str(event.reason))

    def on_broker_cleared(self, event: ev.BrokerCleared) -> None:
        self._notes.notify(kind="trusted", broker=event.broker, why=str(event.reason))


def report_judgements(poller: MetadataPoller, notes: Notes) -> None:
    """Let the parent hear what a producer of ours finds out by its own deliveries."""
    poller.register(_Judgements(notes), replay=False)


class KafkaPythonSender:
    """A ``kafka.KafkaProducer`` with its own partitioner."""

    def __init__(self, bootstrap_servers: str, part: Part, notes: Notes) -> None:
        """Connect."""
        from kafka import KafkaProducer  # noqa: PLC0415 - the other processes need not load it

        self._topic = part.topic
        self._notes = notes
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","),
            acks="all",
            linger_ms=LINGER_MS,
            delivery_timeout_ms=DELIVERY_LIMIT_MS,
            request_timeout_ms=REQUEST_LIMIT_MS,
            max_block_ms=DELIVERY_LIMIT_MS,
        )
        self._producer.partitions_for(part.topic)

    def send(self, number: int, value: bytes, key: bytes | None) -> None:
        """Send one record."""
        try:
            future = self._producer.send(self._topic, value, key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record is not sent
            self._notes.report(number, type(error).__name__)
            return
        future.add_callback(lambda _metadata: self._notes.report(number, None))
        future.add_errback(lambda error: self._notes.report(number, type(error).__name__))

    def wait(self, seconds: float) -> None:
        """Sleep: this client has a thread of its own."""
        time.sleep(seconds)

    def finish(self, seconds: float) -> None:
        """Wait until every record has been reported on."""
        with contextlib.suppress(Exception):  # what was not reported on is counted as such
            self._producer.flush(seconds)


def connect(bootstrap_servers: str, part: Part, notes: Notes) -> Sender:
    """Return a part's producer, connected."""
    if part.kind == "kafka-python":
        return KafkaPythonSender(bootstrap_servers, part, notes)
    if part.kind == "confluent":
        return ConfluentSender(bootstrap_servers, part, notes)
    from kafka_partition_events.demo.asyncio_sender import AsyncioSender  # noqa: PLC0415 - as the clients

    return AsyncioSender(bootstrap_servers, part, notes)
