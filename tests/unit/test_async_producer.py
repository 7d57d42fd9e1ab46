"""`AsyncPartitioningProducer` over a producer that the test serves: futures, room, and its end."""

import asyncio
import gc
import inspect
import threading
import weakref
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer
from kafka_partition_events.clients.confluent import aio as module
from kafka_partition_events.clients.confluent.delivery_thread import MOST_AT_ONCE
from tests.loop_kit import on_a_loop
from tests.poller_kit import WAIT_S, eventually

CLOSED = "Producer has been closed"
Front: Any = AsyncPartitioningProducer  # what it delivers here are no messages
FAILED = KafkaError(KafkaError._MSG_TIMED_OUT)


class Served:
    """Stands for a `PartitioningProducer`. Has room as its setting says, and reports what it is made to."""

    made: "list[Served]"

    def __init__(self, config: Any, *_arguments: Any, **options: Any) -> None:
        self.config, self.options = config, options
        self.room = config.get("room", 1_000_000)
        self.partitioner, self.poller, self.stats = object(), object(), object()
        self.taken: list[tuple[Any, ...]] = []
        self.values: list[str] = []  # of all that it has taken
        self.unserved: list[tuple[Any, ...]] = []
        self.errors: list[type[Exception]] = []  # that a poll raises
        self.closed = self.flushed = 0
        self.waits = False
        self.known = threading.Event()  # `wait_for_topic` returns then
        self.known.set()
        self.topics: list[str] = []
        self.threads: set[int] = set()
        self.condition = threading.Condition()
        self._adapter = self  # which is asked whether a record must wait
        self.made.append(self)

    def must_wait(self, _topic: str, key: Any, _value: Any) -> bool:
        return self.waits and key is not None

    def wait_for_topic(self, topic: str, _timeout: float) -> None:
        self.threads.add(threading.get_ident())
        self.topics.append(topic)
        assert self.known.wait(WAIT_S)

    def produce(self, *record: Any) -> None:
        with self.condition:
            if len(self) >= self.room:
                raise BufferError("queue full")
            self.taken.append(record)
            self.values.append(record[1])

    def report(self, count: int = 1, error: KafkaError | None = None) -> None:
        """Have the reports of the oldest records served by the thread that polls."""
        with self.condition:
            self.unserved += [(record[4], error, record[1]) for record in self.taken[:count]]
            del self.taken[:count]
            self.condition.notify_all()

    def poll(self, timeout: float) -> int:
        if self.errors:
            raise self.errors.pop()
        with self.condition:
            self.condition.wait_for(lambda: bool(self.unserved), timeout)
            ready, self.unserved = self.unserved, []
        for report, error, message in ready:
            report(error, message)
        return len(ready)

    def flush(self, timeout: float) -> int:
        self.flushed += 1
        self.report(len(self.taken))
        return self.poll(timeout)

    def close(self) -> None:
        self.flush(0)
        self.closed += 1

    def purge(self, *_arguments: bool) -> None:
        self.threads.add(threading.get_ident())
        self.report(len(self.taken), KafkaError(KafkaError._PURGE_QUEUE))

    def __len__(self) -> int:
        return len(self.taken) + len(self.unserved)


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    monkeypatch.setattr(module, "PartitioningProducer", Served)
    monkeypatch.setattr(Served, "made", [], raising=False)
    return Served.made


class TestProducing:
    @on_a_loop
    async def test_many_outcomes_leave_others_their_turn(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            futures = [await producer.produce("t", str(n)) for n in range(2 * MOST_AT_ONCE)]
            most, turns = 0, 0
            made[0].report(len(futures))
            while not futures[-1].done():
                before = sum(future.done() for future in futures)
                await asyncio.sleep(0)
                most = max(most, sum(future.done() for future in futures) - before)
                turns += 1
            assert most <= MOST_AT_ONCE
            assert [await future for future in futures] == [str(n) for n in range(2 * MOST_AT_ONCE)]

    @pytest.mark.parametrize("name", ["callback", "on_delivery"])
    @on_a_loop
    async def test_callbacks_run_on_the_loop_and_may_be_async(self, made: list[Served], name: str) -> None:
        heard: list[tuple[Any, ...]] = []

        def plain(error: Any, message: Any) -> None:
            heard.append((threading.get_ident(), error, message))
            raise ZeroDivisionError  # the callback's own trouble

        async def later(error: Any, message: Any) -> None:
            await asyncio.sleep(0)
            heard.append((threading.get_ident(), error, message))

        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        async with Front({"on_delivery": later}) as producer:
            own: Any = {name: plain}
            await producer.produce("t", "1", **own)
            await producer.produce("t", "2")
            made[0].report(2)
            await producer.flush()
        me = threading.get_ident()
        assert sorted(heard, key=str) == [(me, None, "1"), (me, None, "2")]

    @on_a_loop
    async def test_a_topic_that_must_be_known_is_waited_for_in_a_thread(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            made[0].waits = True
            await producer.produce("t", "1", key="k")
            await producer.produce("u", "1", key="k", partition=0)
            assert made[0].taken[1][:4] == ("u", "1", "k", 0)
            assert made[0].topics == ["t"]
            assert threading.get_ident() not in made[0].threads

    @on_a_loop
    async def test_a_key_keeps_its_order_while_its_topic_becomes_known(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            (served,) = made
            served.waits = True
            served.known.clear()
            early = [asyncio.create_task(producer.produce("t", value, "k")) for value in "12"]
            await asyncio.sleep(0)
            await producer.produce("u", "of another topic, without a key")
            served.waits = False
            served.known.set()
            await producer.produce("t", "3", "k")  # nothing keeps it, but for the others
            await asyncio.gather(*early)
            assert served.values[1:] == ["1", "2", "3"]
            assert served.topics == ["t"], "one asks for all"


class TestCancelling:
    @on_a_loop
    async def test_a_record_goes_on_whose_future_is_cancelled(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send("t", "1"), 0)
            sending = asyncio.create_task(producer.send("t", "2"))
            await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            outstanding = len(producer)
            made[0].report(outstanding)
            assert await producer.flush() == 0

    @on_a_loop
    async def test_one_that_waits_for_room_has_queued_nothing(self, made: list[Served]) -> None:
        async with Front({"room": 1}) as producer:
            await producer.produce("t", "1")
            waiting = [asyncio.create_task(producer.produce("t", str(n))) for n in (2, 3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            made[0].report()
            future = await waiting[1]
            made[0].report()
            assert await future == "3"
            assert waiting[0].cancelled()

    @on_a_loop
    async def test_one_whose_turn_it_is_leaves_it_to_the_next(self, made: list[Served]) -> None:
        async with Front({"room": 1}) as producer:
            await producer.produce("t", "1")
            waiting = [asyncio.create_task(producer.produce("t", str(n))) for n in (2, 3)]
            await asyncio.sleep(0)
            made[0].taken.clear()  # there is room
            waiting[0].cancel()  # has its turn, and did not get to take it
            await asyncio.wait(waiting)
            assert waiting[0].cancelled()
            assert [record[1] for record in made[0].taken] == ["3"]


class TestRoom:
    @on_a_loop
    async def test_who_waits_gets_in_in_order_as_others_leave(self, made: list[Served]) -> None:
        count = 100
        async with Front({"room": 10}) as producer:
            order: list[str] = []

            async def send(value: str) -> None:
                order.append(await producer.send("t", value))

            tasks = [asyncio.create_task(send(str(n))) for n in range(count)]
            while len(order) < count:
                assert len(made[0]) <= 10
                made[0].report(3)
                await producer.poll(0.001)
            await asyncio.wait(tasks)
            assert order == [str(n) for n in range(count)]

    @on_a_loop
    async def test_nobody_gets_in_before_who_waits(self, made: list[Served]) -> None:
        async with Front({"room": 3}) as producer:
            tasks = []
            for number in range(200):  # one more comes at each turn of the loop
                tasks.append(asyncio.create_task(producer.send("t", str(number))))
                await asyncio.sleep(0)
                made[0].report(number % 2)
            while not all(task.done() for task in tasks):
                made[0].report(1)
                await producer.poll(0.001)
            assert made[0].values == [str(number) for number in range(200)]

    @on_a_loop
    async def test_a_record_that_an_empty_queue_has_no_room_for_is_refused(self) -> None:
        async with Front({"room": 0}) as producer:
            with pytest.raises(BufferError):
                await producer.produce("t", "1")

    @on_a_loop
    async def test_who_waits_when_it_is_closed_is_refused(self) -> None:
        producer = Front({"room": 1})
        first = await producer.produce("t", "1")
        waiting = [asyncio.create_task(producer.produce("t", str(n))) for n in range(5)]
        await asyncio.sleep(0)
        await producer.close()
        for each in waiting:
            with pytest.raises(RuntimeError, match=CLOSED):
                await each
        assert await first == "1"


class TestServing:
    @on_a_loop
    async def test_flush_waits_for_every_outcome_and_hurries_batches(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            futures = [await producer.produce("t", str(n)) for n in range(5)]
            assert await producer.flush() == 0
            assert made[0].flushed
            assert all(future.done() for future in futures)
            assert await producer.flush(0) == 0

    @on_a_loop
    async def test_flush_ends_with_its_time(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            made[0].flush = made[0].poll  # type: ignore[method-assign]  # it reports nothing by itself
            await producer.produce("t", "1")
            assert await producer.flush(0.001) == 1
            assert producer._thread.flushing == 0
            made[0].report()

    @on_a_loop
    async def test_poll_returns_how_many_were_reported(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            assert await producer.poll() == 0
            assert await producer.poll(0.001) == 0
            await producer.produce("t", "1")
            polling = asyncio.create_task(producer.poll(-1))
            await asyncio.sleep(0)
            made[0].report()
            assert await polling == 1

    @on_a_loop
    async def test_purged_records_fail(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            future = await producer.produce("t", "1")
            await producer.purge()
            with pytest.raises(KafkaException, match="_PURGE_QUEUE"):
                await future
            assert threading.get_ident() not in made[0].threads

    @on_a_loop
    async def test_the_clients_callbacks_come_to_the_loop(self, made: list[Served]) -> None:
        heard: list[Any] = []

        async def errors(error: Any) -> None:
            heard.append((threading.get_ident(), error))

        async with Front({"error_cb": errors}):
            await asyncio.to_thread(made[0].config["error_cb"], "an error")
        assert heard == [(threading.get_ident(), "an error")]


class TestLife:
    @on_a_loop
    async def test_what_is_queued_is_sent_before_it_is_closed(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            future = await producer.produce("t", "1")
        assert future.done()
        assert made[0].closed == 1
        await producer.close()
        assert made[0].closed == 1
        for call in (producer.produce("t"), producer.flush(), producer.poll(), producer.purge()):
            with pytest.raises(RuntimeError, match=CLOSED):
                await call

    @on_a_loop
    async def test_all_have_their_outcome_when_it_is_closed(self, made: list[Served]) -> None:
        heard: list[Any] = []
        async with Front({"on_delivery": lambda *_: heard.append(0)}) as producer:
            futures = [await producer.produce("t", str(n)) for n in range(20 * MOST_AT_ONCE)]
        assert all(future.done() for future in futures)
        assert (len(producer), len(heard)) == (0, len(futures))

    @on_a_loop
    async def test_a_close_that_is_cancelled_goes_on(self, made: list[Served]) -> None:
        producer = Front({})
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await producer.close()
        assert made[0].closed == 1

    @on_a_loop
    async def test_a_call_that_is_cancelled_ends_before_it_is_closed(self, made: list[Served]) -> None:
        entered, let_go = threading.Event(), threading.Event()
        closed_amid_it: list[int] = []

        def blocks() -> None:
            entered.set()
            assert let_go.wait(WAIT_S)
            closed_amid_it.append(made[0].closed)

        producer = Front({})
        made[0].init_transactions = blocks  # type: ignore[attr-defined]
        calling = asyncio.create_task(producer.init_transactions())
        await asyncio.to_thread(entered.wait, WAIT_S)
        calling.cancel()
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        future = producer._reports.loop.create_future()
        producer._reports.outstanding += 1
        producer._reports.put(future, None, None, "served meanwhile")
        assert await future == "served meanwhile"
        let_go.set()
        await closing
        assert closed_amid_it == [0]

    def test_a_loop_that_ends_first_closes_it_with_one_line(
        self, made: list[Served], caplog: pytest.LogCaptureFixture
    ) -> None:
        kept: list[AsyncPartitioningProducer] = []

        @on_a_loop
        async def main() -> None:
            kept.append(Front({}))
            await kept[0].produce("t", "1")

        main()
        assert made[0].closed == 1
        lines = [record.message for record in caplog.records if record.message.startswith("producer_")]
        assert lines == ["producer_loop_ended outstanding=1"]

    @on_a_loop
    async def test_one_that_is_dropped_is_closed(self, made: list[Served]) -> None:
        producer = Front({})
        future = await producer.produce("t", "1")
        reference = weakref.ref(producer)
        del producer
        gc.collect()
        assert reference() is None
        assert await future == "1"
        eventually(lambda: made[0].closed == 1)

    @on_a_loop
    async def test_an_error_of_the_client_ends_no_thread(self, made: list[Served]) -> None:
        async with Front({}) as producer:
            made[0].errors = [ZeroDivisionError]
            sent = asyncio.create_task(producer.send("t", "1"))
            await asyncio.sleep(0)
            made[0].report()
            assert await sent == "1"
            assert not made[0].errors, "it was raised"


class TestACallbackThatClosesIt:
    @on_a_loop
    async def test_may_be_one_of_a_delivery(self, made: list[Served]) -> None:
        producer, closed = Front({}), asyncio.Event()

        async def on_delivery(_error: Any, _message: Any) -> None:
            await producer.close()
            closed.set()

        await producer.produce("t", "1", on_delivery=on_delivery)
        made[0].report()
        await asyncio.wait_for(closed.wait(), WAIT_S)

    @on_a_loop
    async def test_may_be_error_cb(self, made: list[Served]) -> None:
        closed = asyncio.Event()

        async def error_cb(_error: Any) -> None:
            await producer.close()
            closed.set()

        producer = Front({"error_cb": error_cb})
        made[0].config["error_cb"](KafkaError(KafkaError._FATAL))
        await asyncio.wait_for(closed.wait(), WAIT_S)

    @pytest.mark.parametrize("count", [1, 2])
    @on_a_loop
    async def test_may_do_so_while_the_application_does(self, made: list[Served], count: int) -> None:
        producer, closed = Front({}), [asyncio.Event() for _ in range(count)]

        async def on_delivery(_error: Any, _message: Any) -> None:
            await producer.close()
            next(it for it in closed if not it.is_set()).set()

        for number in range(count):
            await producer.produce("t", str(number), on_delivery=on_delivery)
        made[0].report(count)
        await asyncio.wait_for(producer.close(), WAIT_S)
        for each in closed:
            await asyncio.wait_for(each.wait(), WAIT_S)


def test_it_has_what_confluents_own_has() -> None:
    theirs = pytest.importorskip("confluent_kafka.aio").AIOProducer
    special = "__aenter__", "__aexit__", "__len__"
    for name in (*special, *(name for name in vars(theirs) if not name.startswith("_"))):
        ours = getattr(AsyncPartitioningProducer, name)
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(getattr(theirs, name)), name


class TestSettings:
    def test_it_is_made_on_a_loop(self) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            Front({})

    @on_a_loop
    async def test_what_can_not_work_is_refused_in_words(self, made: list[Served]) -> None:
        with pytest.raises(ConfigurationError, match="plain function"):
            Front({"oauth_cb": asyncio.sleep})
        assert not made

    @on_a_loop
    async def test_aio_producers_arguments_are_taken(self, made: list[Served]) -> None:
        async with Front(
            {"linger.ms": 1}, max_workers=2, executor=None, batch_size=10, buffer_timeout=0.1, acks=1
        ):
            assert made[0].config == {"linger.ms": 1, "acks": 1}
