"""The Python producers that take part, behind one small interface."""

import contextlib
from abc import ABC, abstractmethod
from functools import partial
from importlib import import_module
from typing import Any

from confluent_kafka import KafkaException, Producer

from benchmarks.faults.layouts import LINGER_MS
from benchmarks.faults.spec import LoadSpec, Values
from benchmarks.faults.tape import Tape

_CONNECT_LIMIT_S = 20.0


class Sender(ABC):
    """What the load needs of a producer; outcomes go to the tape."""

    @abstractmethod
    def send(self, value: bytes, key: bytes | None, number: int) -> None: ...

    def serve(self) -> None:  # noqa: B027 - a client with a thread of its own needs none
        """Call what waits to be called, if the client has no thread for that."""

    @abstractmethod
    def finish(self, timeout: float) -> None: ...

    def counters(self) -> str:
        return ""

    def measures(self) -> dict[str, float]:
        return {}

    @abstractmethod
    def close(self) -> None: ...


def confluent_config(spec: LoadSpec) -> dict[str, Any]:
    """Return the settings that all producers on librdkafka have."""
    return {
        "bootstrap.servers": spec.bootstrap,
        "acks": spec.acks,
        "linger.ms": LINGER_MS,
        "message.timeout.ms": spec.delivery_limit_ms,
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
        "log_level": 2,
    }


class ConfluentSender(Sender):
    """A ``confluent_kafka.Producer`` or one of its kind."""

    def __init__(self, producer: Producer, topic: str, values: Values, tape: Tape) -> None:
        self._producer = producer
        self._topic = topic
        self._values = values
        self._tape = tape
        producer.list_topics(topic, timeout=_CONNECT_LIMIT_S)

    def send(self, value: bytes, key: bytes | None, number: int) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.001)
            except KafkaException as error:
                self._tape.report(number, -1, error.args[0].name())
                return
            else:
                return

    def _delivered(self, error: Any, message: Any) -> None:
        # One callback for all records, told apart by their values: a closure for each costs more.
        name = None if error is None else error.name()
        self._tape.report(self._values.number(message.value()), message.partition(), name)

    def serve(self) -> None:
        self._producer.poll(0)

    def finish(self, timeout: float) -> None:
        self._producer.flush(timeout)

    def counters(self) -> str:
        return str(getattr(self._producer, "stats", ""))

    def close(self) -> None:
        self._producer.close()


class KafkaPythonSender(Sender):
    """A ``kafka.KafkaProducer``, with one of its own partitioners or with ours attached."""

    def __init__(self, spec: LoadSpec, tape: Tape) -> None:
        from kafka import KafkaProducer  # noqa: PLC0415 - the other processes need not load it

        self._tape = tape
        self._topic = spec.topic
        ours = spec.producer.startswith("attached")
        package = import_module("kafka_partition_events")
        self._producer: Any = KafkaProducer(
            bootstrap_servers=spec.bootstrap.split(","),
            acks=spec.acks if spec.acks == "all" else int(spec.acks),
            linger_ms=LINGER_MS,
            delivery_timeout_ms=spec.delivery_limit_ms,
            request_timeout_ms=spec.request_limit_ms,
            max_block_ms=spec.delivery_limit_ms,
            **({"partitioner": package.AdaptivePartitioner()} if ours else {}),
        )
        self._poller: Any = None
        if ours:
            attach = import_module("kafka_partition_events.clients.kafka_python").attach
            self._poller = attach(self._producer)
        self._producer.partitions_for(spec.topic)

    def send(self, value: bytes, key: bytes | None, number: int) -> None:
        try:
            future = self._producer.send(self._topic, value, key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the record is not sent
            self._tape.report(number, -1, type(error).__name__)
            return
        # An error doesn't say where the record was meant to go; the future does, if it is the client's own.
        if (produced := getattr(future, "_produce_future", None)) is not None:
            self._tape.choose(number, produced.topic_partition.partition)
        future.add_callback(partial(self._delivered, number))
        future.add_errback(partial(self._failed, number))

    def _delivered(self, number: int, metadata: Any) -> None:
        self._tape.report(number, metadata.partition, None)

    def _failed(self, number: int, error: Exception) -> None:
        self._tape.report(number, -1, type(error).__name__)

    def finish(self, timeout: float) -> None:
        with contextlib.suppress(Exception):  # what was not reported on is counted as such
            self._producer.flush(timeout)

    def close(self) -> None:
        if self._poller is not None:
            self._poller.close()
        with contextlib.suppress(Exception):  # it refuses to be closed while records are stuck
            self._producer.close(timeout=1)
