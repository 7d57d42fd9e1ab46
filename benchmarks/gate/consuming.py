"""``python -m benchmarks.gate.consuming JSON``: a member of the group of each topic, until SIGTERM.

Every record is noted in the diary before its offset can be committed.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import Consumer
from kafka import KafkaConsumer

from benchmarks.gate.diary import Diary
from benchmarks.gate.plan import COMMIT_S, CONSUMERS_LOOK_S, SESSION_S, START_LIMIT_S, Client
from benchmarks.gate.task import Task, stopped_by_sigterm
from kafka_partition_events.control.agents.confluent import ControlLink, RebalanceHook
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent

_POLL_S = 1.0
"""A shorter poll may never get kafka-python into its group: joining goes on only while it lasts."""


def agent_of(task: Task, index: int, prefix: str) -> ConsumerAgent:
    """Return the started agent of one consumer."""
    topic = task.topics[index]
    link = ControlLink({"bootstrap.servers": task.bootstrap}, prefix=prefix)
    agent = ConsumerAgent(link, f"{topic}/{task.name}", topic)
    if not agent.start(START_LIMIT_S):
        raise SystemExit(f"the control topics can't be read: {agent.last_error}")
    return agent


def consume_confluent(task: Task, index: int, diary: Diary, stop: threading.Event) -> None:
    topic = task.topics[index]
    classic = {"session.timeout.ms": round(1_000 * SESSION_S), "heartbeat.interval.ms": 1_000}
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "latest",
            "auto.commit.interval.ms": round(1_000 * COMMIT_S),
            "enable.auto.offset.store": False,
            "topic.metadata.refresh.interval.ms": round(1_000 * CONSUMERS_LOOK_S),
            "log_level": 2,
            **({"group.protocol": "consumer"} if task.new_protocol else classic),
        }
    )
    agent: ConsumerAgent | None = None
    if task.prefix is None:
        consumer.subscribe([topic])
    else:
        agent = agent_of(task, index, task.prefix)
        RebalanceHook(agent).subscribe(consumer, [topic])
    while not stop.is_set():
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            diary.note(index, [(message.partition() or 0, message.offset() or 0)])
            consumer.store_offsets(message)
    consumer.close()
    if agent is not None:
        agent.close()


def consume_kafka_python(task: Task, index: int, diary: Diary, stop: threading.Event) -> None:
    topic = task.topics[index]
    consumer: Any = KafkaConsumer(
        bootstrap_servers=task.bootstrap.split(","),
        group_id=topic,
        auto_offset_reset="latest",
        auto_commit_interval_ms=round(1_000 * COMMIT_S),
        metadata_max_age_ms=round(1_000 * CONSUMERS_LOOK_S),
        session_timeout_ms=round(1_000 * SESSION_S),
        heartbeat_interval_ms=1_000,
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        # It commits what an earlier poll has returned, at the beginning of the next one.
        for records in consumer.poll(timeout_ms=round(1_000 * _POLL_S)).values():
            diary.note(index, ((record.partition, record.offset) for record in records))
    consumer.close()


CONSUME: Final[dict[Client, Callable[[Task, int, Diary, threading.Event], None]]] = {
    "confluent": consume_confluent,
    "kafka-python": consume_kafka_python,
}


def main(text: str) -> None:
    task, stop = Task.parse(text), stopped_by_sigterm()
    diary, size = Diary(task.out), len(task.topics)

    def work(index: int) -> None:
        # One after the other, so that their looks for new partitions do not fall together.
        if not stop.wait(CONSUMERS_LOOK_S * index / size):
            CONSUME[task.client](task, index, diary, stop)

    with ThreadPoolExecutor(size) as pool:
        for _ in pool.map(work, range(size)):
            pass


if __name__ == "__main__":
    main(sys.argv[1])
