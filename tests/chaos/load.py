"""``python -m tests.chaos.load TASK``: one producer, at a steady rate, until SIGTERM.

Everything that the application hears is in the diary, and nothing else.
"""

import sys
import time
from typing import Any, Final, Protocol

from kafka_partition_events import BufferBudget, DefaultPartitioner, MetadataPoller, Partitioner
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.agents.producer_agent import ProducerAgent
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from tests.chaos.diary import Diary, Task, stopped_by_sigterm
from tests.chaos.plan import SIZES
from tests.chaos.promises import CAP, KEYS, WRITERS, Writer
from tests.drivers_kit import DRIVERS, Driver, Settings

_FILLING: Final = b"." * 80


class Outcomes(Protocol):
    """What hears of each record's outcome."""

    def acked(self, number: int, partition: int | None, offset: int | None) -> None: ...
    def failed(self, number: int, error: object) -> None: ...


def driver_of(task: Task, writer: Writer, diary: Outcomes) -> Driver:
    """Make a writer's producer, which tells the diary."""

    def heard(number: int, place: tuple[int, int] | None, error: object) -> None:
        diary.failed(number, error) if place is None else diary.acked(number, *place)

    keys: dict[str, Any] = {"keys": "move"} if writer.moves else {}
    settings = Settings(
        servers=task.bootstrap,
        name=task.name,
        ours=writer.ours,
        partitioner=partitioner_of(task, writer),
        acks=writer.acks,
        idempotent=writer.idempotent,
        delivery_s=writer.delivery_s,
        options={"rescue": writer.rescue, **keys},
    )
    driver = DRIVERS[writer.client](settings, heard)
    if "gated" in writer.special:
        start_agent(driver.poller, task)
    return driver


def partitioner_of(task: Task, writer: Writer) -> Partitioner:
    if "key_partitions" in writer.special:
        return AdaptivePartitioner(key_partitions={topic: SIZES[topic][0] for topic in writer.topics})
    if "capped" in writer.special:
        limits = dict.fromkeys(writer.topics, CAP)
        return AdaptivePartitioner(budget=BufferBudget(max_partitions=limits, instance_id=task.name))
    return AdaptivePartitioner() if writer.librdkafka else DefaultPartitioner()


def start_agent(poller: MetadataPoller, task: Task) -> None:
    """Let growth of its topics wait for consumers; the agent ends with the poller."""
    link = ControlLink({"bootstrap.servers": task.bootstrap, "log_level": 2})
    agent = ProducerAgent(poller, link, task.name)
    if not agent.start(WRITERS[task.name].finish_s):
        raise SystemExit(f"the control topics can't be read: {agent.last_error}")


def main(text: str) -> None:
    task, stop = Task.parse(text), stopped_by_sigterm()
    writer, diary = WRITERS[task.name], Diary(task.diary)
    driver = driver_of(task, writer, diary)
    diary.note("begin")
    began, number = time.monotonic(), 0
    while not stop.is_set():
        ahead = began + number / writer.rate - time.monotonic()
        driver.wait(max(0.0, ahead))
        if ahead < -1.0:  # it was frozen, or held up: it goes on, and does not catch up
            began -= ahead
        turn, which = divmod(number, len(writer.topics))
        topic, keyed = writer.topics[which], turn % 10 < 10 * writer.keyed
        key = f"{task.name}-{turn % KEYS}" if keyed else None
        diary.intends(number, topic, key)
        named = f"{task.name}.{task.run}/{number}".encode()
        driver.send(number, topic, key.encode() if key else None, named + b" " + _FILLING)
        number += 1
    diary.note("stop")
    driver.flush(writer.finish_s)
    driver.close()
    diary.note("end")


if __name__ == "__main__":
    main(sys.argv[1])
