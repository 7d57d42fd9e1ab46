"""``python -m tests.chaos.consume TASK``: a member of the group that reads ``gated``, with the hook.

``auto.offset.reset`` is ``latest``. Every record is noted before its offset can be committed.
"""

import sys
import threading
from itertools import chain
from typing import Any, Final

from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.errors import KafkaError

from kafka_partition_events.control.agents.confluent import ControlLink, RebalanceHook
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from tests.chaos.diary import Diary, Task, named, stopped_by_sigterm

GROUP: Final = "gated"
"""And the topic that it reads."""
_START_S = 100.0
_LOOK_MS = 5_000
_SESSION_MS = 10_000


def consume_confluent(task: Task, diary: Diary, stop: threading.Event) -> None:
    servers = {"bootstrap.servers": task.bootstrap, "log_level": 2}
    consumer = Consumer(
        {
            **servers,
            "group.id": GROUP,
            "auto.offset.reset": "latest",
            "enable.auto.offset.store": False,
            "session.timeout.ms": _SESSION_MS,
            "topic.metadata.refresh.interval.ms": _LOOK_MS,
        }
    )
    agent = ConsumerAgent(ControlLink(servers), task.name, GROUP)
    if not agent.start(_START_S):
        raise SystemExit(f"the control topics can't be read: {agent.last_error}")
    RebalanceHook(agent).subscribe(consumer, [GROUP])
    while not stop.is_set():
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            diary.note("c", message.partition(), message.offset(), named(message.value()))
            consumer.store_offsets(message)
    consumer.close()
    agent.close()


def consume_kafka_python(task: Task, diary: Diary, stop: threading.Event) -> None:
    consumer: Any = KafkaConsumer(
        bootstrap_servers=task.bootstrap.split(","),
        group_id=GROUP,
        auto_offset_reset="earliest",  # there is no hook: a new partition is to be read from its beginning
        session_timeout_ms=_SESSION_MS,
        metadata_max_age_ms=_LOOK_MS,
    )
    consumer.subscribe([GROUP])
    while not stop.is_set():
        try:
            polled = consumer.poll(timeout_ms=1_000)
        except KafkaError:  # it raises what its connections meet, and goes on when it is asked again
            stop.wait(0.5)
            continue
        for record in chain.from_iterable(polled.values()):
            diary.note("c", record.partition, record.offset, named(record.value))
    consumer.close()


def main(text: str) -> None:
    task, stop = Task.parse(text), stopped_by_sigterm()
    diary = Diary(task.diary)
    diary.note("begin")
    {"consumer-c": consume_confluent, "consumer-k": consume_kafka_python}[task.name](task, diary, stop)
    diary.note("end")


if __name__ == "__main__":
    main(sys.argv[1])
