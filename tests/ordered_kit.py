"""Partitions and a group in memory, and what stands for a plain consumer below `Ordering`."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, Self
from unittest.mock import patch

from attrs import Factory, define
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_partition_events.clients.confluent import ordered
from kafka_partition_events.clients.flight.predecessors import AFTER_HEADER, format_after
from kafka_partition_events.clients.flight.rescue import ID_HEADER
from kafka_partition_events.clients.ordered import asking
from kafka_partition_events.clients.ordered.order import EnquiryAnswer, Question
from kafka_partition_events.testing import ManualClock

TOPIC = "orders"
Headers = list[tuple[str, bytes]]


def headers(after: dict[int, int] | None = None, id_: bytes | None = None) -> Headers:
    found = [] if not after else [(AFTER_HEADER, format_after(after))]
    return found if id_ is None else [*found, (ID_HEADER, id_)]


@define(eq=False)
class Message:
    """As much of a message as is read of it."""

    at: int
    position: int
    said: Any = None
    given: Headers | None = None
    failure: KafkaError | None = None

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self.at

    def offset(self) -> int:
        return self.position

    def headers(self) -> Headers | None:
        return self.given or None

    def value(self) -> Any:
        return self.said

    def error(self) -> KafkaError | None:
        return self.failure


@define(eq=False)
class Partition:
    """A log: what it begins with, and its records."""

    begin: int = 0
    records: list[tuple[Any, Headers | None]] = Factory(list)

    @property
    def end(self) -> int:
        return self.begin + len(self.records)

    def append(self, value: Any, given: Headers | None = None) -> int:
        self.records.append((value, given))
        return self.end - 1

    def truncate(self, end: int) -> None:
        del self.records[max(0, end - self.begin) :]

    def expire(self, begin: int) -> None:
        begin = min(begin, self.end)
        del self.records[: max(0, begin - self.begin)]
        self.begin = max(self.begin, begin)


@define(eq=False)
class Group:
    """A topic, and a group's offsets and owners of its partitions."""

    partitions: list[Partition]
    clock: ManualClock
    committed: dict[int, int] = Factory(dict)
    owners: dict[int, Any] = Factory(dict)
    is_silent: bool = False  # a coordinator that hangs

    def enquirer(self, _config: Any) -> "Group":
        return self

    def ask(self, question: Question) -> EnquiryAnswer:
        if self.is_silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        committed = {(TOPIC, p): self.committed.get(p, -1001) for _, p in question.committed}
        if question.log is None:
            return EnquiryAnswer(committed)
        at = question.log[1]
        log = self.partitions[at] if at < len(self.partitions) else Partition()
        return EnquiryAnswer(committed, (log.begin, log.end))

    def close(self) -> None:
        pass


class AtOnce(Executor):
    """Runs at once what it is given."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        pass

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future


class Plain:
    """A plain consumer: one record of each partition in turn, events at ends, rebalances while it polls."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config, self.group = config, config["group"]
        self.positions: dict[int, int] = {}
        self.stored: dict[int, int] = {}
        self.paused: set[int] = set()
        self.ended: dict[int, int] = {}
        self.target: set[int] | None = None
        self.is_eager = False
        self.callbacks: dict[str, Any] = {}
        self.turn = 0
        self.calls: list[str] = []

    def subscribe(self, _topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def poll(self, seconds: float) -> Message | None:
        return next(iter(Plain.consume(self, 1, seconds)), None)

    def consume(self, most: int, seconds: float) -> list[Message]:
        self._rebalance()
        found: list[Message] = []
        for _ in range(most * len(self.positions)):
            at = [*self.positions][self.turn % len(self.positions)]
            self.turn += 1
            if at not in self.paused and (message := self._next(at)):
                found.append(message)
            if len(found) == most:
                break
        if not found and seconds > 0:
            self.group.clock.advance(seconds)
        return found

    def _next(self, at: int) -> Message | None:
        log, position = self.group.partitions[at], self.positions[at]
        if not log.begin <= position <= log.end:  # auto.offset.reset=earliest
            position = log.begin
        self.positions[at] = position
        if position < log.end:
            self.positions[at] += 1
            return Message(at, position, *log.records[position - log.begin])
        if self.ended.get(at) == position:
            return None
        self.ended[at] = position
        return Message(at, position, failure=KafkaError(KafkaError._PARTITION_EOF))

    def _rebalance(self) -> None:
        if self.target is None:
            return
        lost = set(self.positions) if self.is_eager else set(self.positions) - self.target
        self.is_eager = False
        if lost:
            self.callbacks["on_revoke"](self, [TopicPartition(TOPIC, at) for at in sorted(lost)])
            self._commit(lost)
            for at in lost:
                self._take_away(at)
        free = {at for at in self.target if at not in self.group.owners}
        for at in sorted(free):
            self._give(at, self.group.committed.get(at, 0))

    def _give(self, at: int, offset: int) -> None:
        self.group.owners[at] = self
        self.positions[at] = offset
        self.ended.pop(at, None)

    def _take_away(self, at: int) -> None:
        del self.positions[at]
        self.stored.pop(at, None)
        self.group.owners.pop(at, None)

    def _commit(self, those: set[int]) -> None:
        self.group.committed.update({at: offset for at, offset in self.stored.items() if at in those})

    def crash(self) -> None:
        for at in [*self.positions]:
            self._take_away(at)

    def store_offsets(self, message: Message) -> None:
        if message.at not in self.positions:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.stored[message.at] = message.position + 1

    def commit(self, **_kwargs: Any) -> None:
        self.calls.append("commit")
        self._commit(set(self.positions))

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, at) for at in self.positions]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.crash()
        Plain.incremental_assign(self, partitions)

    def unassign(self) -> None:
        self._commit(set(self.positions))
        self.crash()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._give(each.partition, max(0, each.offset))

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._take_away(each.partition)

    def seek(self, partition: TopicPartition) -> None:
        self.positions[partition.partition] = max(0, partition.offset)
        self.stored.pop(partition.partition, None)

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {each.partition for each in partitions}

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, p.partition, self.positions[p.partition]) for p in partitions]

    def close(self) -> None:
        Plain.unassign(self)

    def __enter__(self) -> Self:
        return self


class Member(ordered.Ordering, Plain):  # type: ignore[misc]  # it takes less
    """An ordered consumer on partitions in memory."""


@contextmanager
def in_memory(group: Group) -> Iterator[None]:
    """Let members ask the group at once, by its clock."""
    with (
        patch.object(asking, "ThreadPoolExecutor", AtOnce),
        patch.object(ordered, "_Enquirer", group.enquirer),
        patch.object(ordered, "time", group.clock),
    ):
        yield


def values(messages: list[Any]) -> list[Any]:
    return [message.value() for message in messages]
