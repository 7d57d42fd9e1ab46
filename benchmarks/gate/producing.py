"""``python -m benchmarks.gate.producing JSON``: a producer for each topic, at a steady rate, until SIGTERM.

Every acknowledged record is noted in the diary. With control topics each producer has an agent.
"""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, Message
from kafka import KafkaProducer

from benchmarks.gate.diary import Diary
from benchmarks.gate.plan import LINGER_MS, PRODUCERS_LOOK_S, RATE, START_LIMIT_S, Client
from benchmarks.gate.task import Task, stopped_by_sigterm
from kafka_partition_events import DefaultPartitioner, MetadataPoller
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.clients.kafka_python import attach
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.agents.producer_agent import ProducerAgent

_SPREAD_S = 1.0
"""Twenty instances need not spread their answers over five seconds; the gates are then held together."""
_FINISH_S = 20.0
_KEYS = 1_000


class Sender(Protocol):
    """One client that writes one topic and notes what was acknowledged."""

    def send(self, number: int) -> None: ...
    def close(self) -> None: ...


class ConfluentSender:
    def __init__(self, task: Task, index: int, diary: Diary) -> None:
        self._topic, self._index, self._diary = task.topics[index], index, diary
        config = {
            "bootstrap.servers": task.bootstrap,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "allow.auto.create.topics": False,
            "on_delivery": self._delivered,
            "log_level": 2,
        }
        look = {"interval": PRODUCERS_LOOK_S}
        self._producer = PartitioningProducer(config, DefaultPartitioner(), poller_options=look)
        start_agent(self._producer.poller, task, index)

    def send(self, number: int) -> None:
        self._producer.produce(self._topic, b"value", key_of(number))
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._diary.note(self._index, [(message.partition() or 0, message.offset() or 0)])

    def close(self) -> None:
        self._producer.flush(_FINISH_S)
        self._producer.close()


class KafkaPythonSender:
    def __init__(self, task: Task, index: int, diary: Diary) -> None:
        self._topic, self._index, self._diary = task.topics[index], index, diary
        self._producer = KafkaProducer(
            bootstrap_servers=task.bootstrap.split(","),
            partitioner=DefaultPartitioner(),
            acks="all",
            linger_ms=LINGER_MS,
            metadata_max_age_ms=round(1_000 * PRODUCERS_LOOK_S),
        )
        poller = attach(self._producer, interval=PRODUCERS_LOOK_S)
        start_agent(poller, task, index)

    def send(self, number: int) -> None:
        self._producer.send(self._topic, b"value", key_of(number)).add_callback(self._delivered)

    def _delivered(self, metadata: Any) -> None:
        self._diary.note(self._index, [(metadata.partition, metadata.offset)])

    def close(self) -> None:
        self._producer.flush(_FINISH_S)
        self._producer.close(timeout=_FINISH_S)


SENDERS: Final[dict[Client, Callable[[Task, int, Diary], Sender]]] = {
    "confluent": ConfluentSender,
    "kafka-python": KafkaPythonSender,
}


def key_of(number: int) -> bytes | None:
    """Return the key of every second record: a thousand of them in turn."""
    return b"key-%d" % (number % _KEYS) if number % 2 else None


def start_agent(poller: MetadataPoller, task: Task, index: int) -> None:
    """Start the agent of one producer, if it is to have one; it ends with the poller."""
    if task.prefix is None:
        return
    link = ControlLink({"bootstrap.servers": task.bootstrap}, prefix=task.prefix)
    agent = ProducerAgent(poller, link, f"{task.topics[index]}/{task.name}", spread=_SPREAD_S)
    if not agent.start(START_LIMIT_S):
        raise SystemExit(f"the control topics can't be read: {agent.last_error}")


def send_steadily(sender: Sender, stop: threading.Event) -> None:
    began, number = time.monotonic(), 0
    while not stop.wait(max(0.0, began + number / RATE - time.monotonic())):
        sender.send(number)
        number += 1
    sender.close()


def main(text: str) -> None:
    task, stop = Task.parse(text), stopped_by_sigterm()
    diary, make = Diary(task.out), SENDERS[task.client]
    indexes = range(len(task.topics))
    with ThreadPoolExecutor(len(task.topics)) as pool:
        senders = list(pool.map(lambda index: make(task, index, diary), indexes))
        for _ in pool.map(lambda sender: send_steadily(sender, stop), senders):
            pass


if __name__ == "__main__":
    main(sys.argv[1])
