"""A confluent-kafka consumer that hands out each key's records in their order, although keys move."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from kafka_partition_events.clients.confluent import settings
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.clients.ordered.asking import ASK_S, SLICE_S, Waits
from kafka_partition_events.clients.ordered.order import EnquiryAnswer, NextRecord, Order, Place, Question

_SERVE_S: Final = 0.1  # between two polls of librdkafka while there is something to hand out without
_HELD: Final = 100  # records of a partition that are held before it is paused, which costs a fetch
_STORE_S: Final = 0.1  # between two times that offsets are stored, and while keys move also committed
_MOVING_S: Final = 10.0  # since the last record of a key that had moved: so long keys are said to move
_NO_LOG: Final = {"_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"}
_STORE, _COMMIT, _END = "enable.auto.offset.store", "enable.auto.commit", "enable.partition.eof"
_PLAIN: Any = object  # a plain consumer, or what a test has in its place, comes after `Ordering`

Callback = Callable[[Any, list[TopicPartition]], object]


class Ordering(_PLAIN):  # type: ignore[misc]
    """What `OrderedConsumer` adds to a class with the methods of a plain consumer."""

    def __init__(self, config: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        given = {_STORE: True, _COMMIT: True, **settings.merged(config, kwargs)}
        max_wait = float(given.pop("ordered.max.wait.ms", 300_000)) / 1000
        on_timeout = given.pop("ordered.on.timeout", "deliver")
        self._stores, self._shows_end = settings.is_true(given, _STORE), settings.is_true(given, _END)
        is_free = self._stores and "auto.commit.interval.ms" not in given
        self._commits = is_free and settings.is_true(given, _COMMIT)
        self._order = Order(max_wait)
        self._waits = Waits(self._order, lambda: _Enquirer(given), on_timeout)
        self._queues: dict[Place, deque[Any]] = {}
        self._errors: deque[Message] = deque()
        self._unstored: dict[Place, Message] = {}
        self._paused: set[Place] = set()  # by us
        self._theirs: set[Place] = set()  # by the application
        self._next_serve = self._next_store = 0.0
        super().__init__({**given, _STORE: False, _END: True})

    def poll(self, timeout: float | None = None) -> Message | None:
        """Return the next record that may be handed out, or an event; see ``Consumer.poll``."""
        poll, now = super().poll, time.monotonic()
        seconds = -1.0 if timeout is None else timeout
        if not self._queues and not self._errors:  # nothing waits: one record, and nothing about it
            self._settle(now)
            message: Any = poll(seconds)
            if message is None:
                return None
            if message.error() is None:
                place = message.topic(), message.partition()
                try:
                    if (verdict := self._judge(place, message, time.monotonic())) is NextRecord.GIVE:
                        return cast("Message", message)
                    if verdict is NextRecord.WAIT:
                        self._queues[place] = deque([message])
                except BaseException:  # as in `_pull`
                    self._unstored.pop(place, None)
                    self._put_back([message])
                    raise
            else:
                self._take(message)
            if seconds > 0:
                seconds = max(0.0, now + seconds - time.monotonic())

        def fetch(_most: int, seconds: float) -> list[Message]:
            message = poll(seconds)
            return [] if message is None else [message]

        given = self._read(1, seconds, fetch)
        return given[0] if given else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return records that may be handed out, and events; see ``Consumer.consume``.

        No batch has a record and one that comes after it in another partition; it may be short for that.
        """
        return self._read(num_messages, timeout, super().consume)

    def _read(self, most: int, timeout: float, fetch: Callable[[int, float], list[Message]]) -> list[Message]:
        order, now = self._order, time.monotonic()
        deadline = None if timeout < 0 else now + timeout
        while True:
            self._settle(now)
            if order.heads:
                self._turn(now)
            is_ready = bool(self._errors) or any(map(self._may, self._queues))
            left = -1 if deadline is None else max(0.0, deadline - now)
            if order.heads and not 0 <= left < SLICE_S:
                left = SLICE_S
            if not is_ready or now >= self._next_serve:
                for message in fetch(most, 0 if is_ready else left):
                    self._take(message)
                now = time.monotonic()
                self._next_serve = now + _SERVE_S
            given = self._pull(most, now)
            if given or most == 0 or (deadline is not None and now >= deadline):
                return given

    def _settle(self, now: float = float("inf")) -> None:
        """Count as processed what was handed out: the application asks for more, or commits.

        It is stored now and then, for that costs more than a poll; at once before it may be committed.
        """
        self._order.settle()
        if now < self._next_store or not self._unstored:
            return
        for message in self._unstored.values() if self._stores else ():
            with contextlib.suppress(KafkaException):  # the partition is gone; its next owner reads it
                super().store_offsets(message)
        self._unstored.clear()
        if now < float("inf"):
            self._next_store = now + _STORE_S
            if self._commits and now < self._order.moved + _MOVING_S:
                super().commit(asynchronous=True)

    def _turn(self, now: float) -> None:
        for place, queue in self._queues.items():
            if len(queue) >= _HELD and place not in self._paused and self._order.is_blocked(place):
                self._paused.add(place)
                super().pause([TopicPartition(*place)])
        if (why := self._waits.turn(now)) is not None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, why))  # noqa: SLF001 - so they are named

    def _take(self, message: Any) -> None:
        error, place = message.error(), (message.topic(), message.partition())
        if error is not None and error.name() != "_PARTITION_EOF":
            self._errors.append(message)
        elif error is None or self._shows_end or place in self._queues:
            self._queues.setdefault(place, deque()).append(message)
        else:
            self._order.reached(place, message.offset())

    def _may(self, place: Place) -> bool:
        return place not in self._theirs and not self._order.is_blocked(place)

    def _pull(self, most: int, now: float) -> list[Message]:
        given = [self._errors.popleft() for _ in range(min(most, len(self._errors)))]
        unstored = self._unstored.copy()
        try:
            for place in [*self._queues]:
                queue = self._queues[place]
                while queue and len(given) < most and self._may(place):
                    verdict = self._judge(place, queue[0], now)
                    if verdict is NextRecord.GIVE:
                        given += (queue[0],)  # no call up to `del`: no signal handler comes between
                    if verdict is not NextRecord.WAIT:
                        del queue[0]
                if not queue:
                    self._drop([place])
        except BaseException:  # a signal handler's: these are not handed out, so they come again
            self._unstored = unstored
            self._put_back(given)
            raise
        return given

    def _put_back(self, messages: Sequence[Any]) -> None:
        """Let messages be the next of their partitions again, as if they had not been judged."""
        for message in reversed(messages):
            error, place = message.error(), (message.topic(), message.partition())
            is_event = error is not None and error.name() != "_PARTITION_EOF"
            (self._errors if is_event else self._queues.setdefault(place, deque())).appendleft(message)
        for place, queue in self._queues.items():
            if queue:
                self._order.reached(place, queue[0].offset())

    def _judge(self, place: Place, message: Any, now: float) -> NextRecord:
        if message.error() is not None:
            self._order.reached(place, message.offset())
            return NextRecord.GIVE if self._shows_end else NextRecord.DROP
        verdict = self._order.judge(place, message.offset(), message.headers(), now)
        if verdict is not NextRecord.WAIT:
            self._unstored[place] = message
        return verdict

    def _drop(self, places: Iterable[Place]) -> None:
        """Hold nothing of these partitions, and resume what we paused: librdkafka remembers a pause."""
        for place in places:
            self._queues.pop(place, None)
            if place in self._paused:
                self._paused.discard(place)
                if place not in self._theirs:
                    super().resume([TopicPartition(*place)])

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        places = _places(partitions)
        self._drop(places)
        self._order.forget(places)

    def _start(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            place, offset = (each.topic, each.partition), each.offset
            offset = 0 if offset == OFFSET_BEGINNING else offset
            self._unstored.pop(place, None)
            self._order.starts(place, offset if offset >= 0 else None)

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """See ``Consumer.subscribe``. What waits of a revoked partition is dropped."""

        def gone(theirs: Callback | None) -> Callback:
            def call(_consumer: Any, partitions: list[TopicPartition]) -> None:
                self._settle()
                try:
                    if theirs is not None:
                        theirs(self, partitions)
                finally:
                    self._forget(partitions)

            return call

        more = {} if on_assign is None else {"on_assign": on_assign}
        super().subscribe(topics, on_revoke=gone(on_revoke), on_lost=gone(on_lost or on_revoke), **more)

    def assign(self, partitions: list[TopicPartition]) -> None:
        """See ``Consumer.assign``."""
        self._settle()
        self._forget(super().assignment())
        super().assign(partitions)
        self._start(partitions)

    def unassign(self) -> None:
        """See ``Consumer.unassign``."""
        self._settle()
        self._forget(super().assignment())
        super().unassign()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """See ``Consumer.incremental_assign``."""
        super().incremental_assign(partitions)
        self._start(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """See ``Consumer.incremental_unassign``."""
        self._settle()
        self._forget(partitions)
        super().incremental_unassign(partitions)

    def seek(self, partition: TopicPartition) -> None:
        """See ``Consumer.seek``. What waits of the partition is dropped."""
        super().seek(partition)
        self._drop(_places([partition]))
        self._start([partition])

    def pause(self, partitions: list[TopicPartition]) -> None:
        """See ``Consumer.pause``."""
        super().pause(partitions)
        self._theirs.update(_places(partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        """See ``Consumer.resume``. What we have paused goes on when its record may be handed out."""
        self._theirs.difference_update(_places(partitions))
        super().resume([each for each in partitions if (each.topic, each.partition) not in self._paused])

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the offsets after what was handed out; see ``Consumer.position``."""
        queues = (
            (each, self._queues.get((each.topic, each.partition))) for each in super().position(partitions)
        )
        return [
            TopicPartition(each.topic, each.partition, queue[0].offset()) if queue else each
            for each, queue in queues
        ]

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        """Commit what was handed out, or what is named; see ``Consumer.commit``."""
        if all(named is None for named in (*args[:2], kwargs.get("message"), kwargs.get("offsets"))):
            self._settle()
        return super().commit(*args, **kwargs)

    def close(self) -> None:
        """See ``Consumer.close``. Automatic commits include what was handed out last."""
        self._settle()
        self._waits.close()
        self._queues.clear()
        super().close()

    def __exit__(self, *_error: object) -> None:
        self.close()


class OrderedConsumer(Ordering, confluent_kafka.Consumer):
    """A ``confluent_kafka.Consumer`` that hands out each key's records in their order, although keys move.

    A record waits until its group has processed all that its header ``kpe-after`` names; copies (``kpe-id``)
    of what this member has handed out are dropped. Processed is what this member has handed out before its
    application asked for more or called `commit` without arguments; of partitions that it has read nothing
    of, what the group has committed. So commit by time, not by number of records: other members may wait.
    While keys move, automatic commits come every 0.1 s unless you set ``auto.commit.interval.ms``.

    While a record waits, up to 100 records of its partition are held, then it is paused; others go on. What
    is named but gone counts as processed: below the log's start after a second; beyond its end, or in no
    partition, after 45 s (a leader may show so late what it acknowledged with ``acks=1``). A wait beyond
    ``ordered.max.wait.ms`` (300,000) ends as ``ordered.on.timeout`` says: ``deliver`` (default; logged as a
    warning) or ``raise`` (`KafkaException` with ``_TIMED_OUT``; the wait begins again).

    Offsets are stored only of what was processed; `close` and `commit` count what was handed out last, too.
    `position` is after what was handed out, so ``send_offsets_to_transaction`` may use it: other members
    wait until that transaction is committed. A rebalance and `seek` drop what waits; it is read again.
    ``docs/ordered-consumer.md`` says what is promised after a crash.

    It asks with a second client, made when something first waits. Thread-safety: what is overridden here is
    for one thread at a time, but for `commit` with arguments.

    Raises:
        ConfigurationError: ``ordered.on.timeout`` is neither.
        KafkaException: confluent-kafka refuses a setting.
    """


class _Enquirer:
    """A client beside the consumer: in no group, and it sees what open transactions hide."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        own = {"group.id": config["group.id"], "isolation.level": "read_uncommitted", _COMMIT: False}
        self._client = confluent_kafka.Consumer({**connecting(config), **own})

    def ask(self, question: Question) -> EnquiryAnswer:
        self._client.poll(0)  # serves callbacks, such as a login's
        committed, log = {}, None
        if question.committed:
            wanted = [TopicPartition(*place) for place in question.committed]
            for each in self._client.committed(wanted, timeout=ASK_S):
                committed[each.topic, each.partition] = each.offset
        if question.log is not None:
            try:
                log = self._client.get_watermark_offsets(TopicPartition(*question.log), timeout=ASK_S)
            except KafkaException as error:
                log = (0, 0) if error.args[0].name() in _NO_LOG else None
        return EnquiryAnswer(committed, log)

    def close(self) -> None:
        self._client.close()


def _places(partitions: Iterable[TopicPartition]) -> list[Place]:
    return [(each.topic, each.partition) for each in partitions]
