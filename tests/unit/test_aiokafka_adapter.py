"""What becomes of the records of an aiokafka producer that is attached, without a broker."""

import asyncio
import gc
import weakref
from collections import Counter
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError, ProducerClosed, RequestTimedOutError

from kafka_partition_events import (
    AdaptivePartitioner,
    ConfigurationError,
    DefaultPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    UniformStickyPartitioner,
)
from kafka_partition_events.clients.aiokafka import PartitioningAIOKafkaProducer, attach, rescue_stats
from kafka_partition_events.clients.aiokafka.adapter import LATE_S
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import ID_HEADER
from tests.loop_kit import on_a_loop
from tests.poller_kit import until
from tests.unit.aiokafka_kit import Rig, a_poller, a_producer, a_rig, learn, outcome, reports

STICKY = StickyPartitioner, UniformStickyPartitioner
MUCH = b"x" * 10_000  # two of them do not fit into a batch


# -- the producer that the application has -------------------------------------------------------------


@on_a_loop
async def test_an_attached_producer_is_what_it_was_but_for_its_methods() -> None:
    rig = await a_rig()
    assert isinstance(rig.producer, AIOKafkaProducer)
    assert type(rig.producer).__qualname__ == "AIOKafkaProducer"
    assert rig.producer.send.__func__ is AIOKafkaProducer.send
    assert (rig.producer.stop.__doc__ or "").startswith("Flush all pending data")
    await rig.stop()


@on_a_loop
async def test_a_producer_that_was_dropped_is_gone_at_once() -> None:
    rig = await a_rig()
    rig.producer._closed = True  # aiokafka warns of one that was not stopped
    gone, task, client = weakref.ref(rig.producer), rig.producer._sender.sender_task, rig.producer.client
    gc.disable()
    try:
        rig.producer = None
        assert gone() is None
    finally:
        gc.enable()
    task.cancel()
    await asyncio.wait([task])
    await client.close()
    rig.poller.close()


@pytest.mark.parametrize(
    ("config", "options", "why"),
    [
        ({"partitioner": print}, {}, "partitioner must be an object of this library"),
        ({"acks": 0}, {"rescue": "hedge"}, "acks=0"),
        ({"transactional_id": "t"}, {"rescue": "hedge"}, "transactional_id"),
    ],
)
@on_a_loop
async def test_what_can_not_be_is_refused(config: dict[str, Any], options: dict[str, Any], why: str) -> None:
    producer = await a_producer(**config)
    with pytest.raises(ConfigurationError, match=why):
        attach(producer, **options)
    assert type(producer) is AIOKafkaProducer
    await producer.stop()


@on_a_loop
async def test_a_producer_is_attached_between_its_start_and_its_stop() -> None:
    producer = AIOKafkaProducer()
    with pytest.raises(ConfigurationError, match="after `await producer"):
        attach(producer)
    await producer.stop()
    rig = await a_rig()
    with pytest.raises(ConfigurationError, match="attached already"):
        attach(rig.producer)
    await rig.stop()
    with pytest.raises(ConfigurationError, match="before `stop"):
        attach(rig.producer)


@on_a_loop
async def test_a_poller_that_ends_with_its_producer_is_not_shared() -> None:
    first, other = await a_producer(), await a_producer()
    with pytest.raises(ConfigurationError, match="ends with the producer that it was attached to"):
        attach(other, poller=attach(first))
    await first.stop()
    await other.stop()


@pytest.mark.parametrize("given", [None, AdaptivePartitioner()])
@on_a_loop
async def test_the_partitioner_is_the_producers_own_or_the_default(given: Any) -> None:
    producer = await a_producer(**({} if given is None else {"partitioner": given}))
    poller = a_poller()
    attach(producer, poller=poller)
    (registered,) = [registration.listener for registration in poller.registrations]
    assert (type(registered) is DefaultPartitioner) if given is None else (registered is given)
    await producer.stop()
    poller.close()


@on_a_loop
async def test_a_class_that_can_not_attach_itself_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(producer: AIOKafkaProducer) -> None:
        producer._sender._sender_task = asyncio.ensure_future(asyncio.sleep(0))

    monkeypatch.setattr(AIOKafkaProducer, "start", start)
    poller = a_poller()
    refused = PartitioningAIOKafkaProducer(acks=0, rescue="failed", poller=poller)
    with pytest.raises(ConfigurationError, match="acks=0"):
        await refused.start()
    assert refused._closed
    poller.close()


# -- where records go ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AdaptivePartitioner, DefaultPartitioner, RoundRobinPartitioner, *STICKY])
@on_a_loop
async def test_keys_are_where_a_plain_producer_puts_them_and_the_rest_is_spread(kind: Any) -> None:
    rig, plain = await a_rig(kind()), await a_producer()
    for n in range(50):
        await rig.producer.send("t", b"v", b"%d" % n)
        await plain.send("t", b"v", b"%d" % n)
    theirs, _ = plain._message_accumulator.drain_by_nodes(ignore_nodes=())
    counts = {tp.partition: batch.record_count for node in theirs.values() for tp, batch in node.items()}
    ours = {sent.partition: sent.records for sent in await rig.deliver()}
    assert rig.partitioner.ignores_keys or ours == counts
    seen: Counter[int] = Counter()
    for _ in range(40):
        await rig.producer.send("t", b"x" * 900)
        seen.update(sent.partition for sent in await rig.deliver())
    assert len(seen) == 3
    plain._message_accumulator.fail_all(TimeoutError())
    await plain.stop()
    await rig.stop()


@on_a_loop
async def test_records_stick_to_a_partition_for_a_batch() -> None:
    rig = await a_rig()
    for _ in range(20):
        before = await rig.deliver()
        for _ in range(10):
            await rig.producer.send("t", b"v")
        (sent,) = await rig.deliver()
        assert sent.records == 10
        assert not before or sent.partition != before[0].partition
    await rig.stop()


@on_a_loop
async def test_records_that_wait_for_room_go_in_their_order_and_are_woken_one_by_one() -> None:
    rig = await a_rig()
    sent = [await rig.producer.send("t", MUCH) for _ in range(3)]  # each where there is room
    tries: list[bytes] = []
    send = rig.adapter._send

    def note(record: Any) -> Any:
        tries.append(record.value[-1:])
        return send(record)

    rig.adapter._send = note
    waiting = [asyncio.ensure_future(rig.producer.send("t", MUCH + b"%d" % n)) for n in range(9)]
    await reports()
    assert not any(task.done() for task in waiting)
    tries.clear()
    await rig.deliver()
    assert {(await future).partition for future in sent} == {0, 1, 2}
    for _ in range(10_000):  # turns of the loop, of which a busy machine needs more
        if len(tries) == 4 and sum(task.done() for task in waiting) == 3:
            break
        await asyncio.sleep(0)
    await reports()
    assert [task.done() for task in waiting] == [True] * 3 + [False] * 6
    assert tries == [b"0", b"1", b"2", b"3"]
    while not all(task.done() for task in waiting):
        await rig.deliver()
    await rig.stop()


@on_a_loop
async def test_a_record_with_a_key_waits_for_its_partition_for_no_longer_than_it_may() -> None:
    rig = await a_rig(config={"request_timeout_ms": 30})
    await rig.producer.send("t", MUCH, b"key")
    with pytest.raises(KafkaTimeoutError):
        await rig.producer.send("t", MUCH, b"key")
    assert rig.outstanding == 1
    await rig.stop()


@on_a_loop
async def test_a_partition_that_the_client_does_not_know_yet_is_not_chosen() -> None:
    producer = await a_producer()
    poller = a_poller(t=[1, 2, 3, 1, 2, 3], u=[1])
    partitioner = DefaultPartitioner()
    attach(producer, partitioner=partitioner, poller=poller)
    rig = Rig(producer, partitioner, poller)
    for n in range(60):
        await rig.producer.send("t", b"v", b"%d" % n)
        await rig.producer.send("t", b"v")
    assert {sent.partition for sent in await rig.deliver()} == {0, 1, 2}
    assert rig.outstanding == 0
    await rig.stop()


@on_a_loop
async def test_explicit_partitions_and_batches_are_left_alone() -> None:
    rig = await a_rig()
    await rig.producer.send("t", b"v", partition=1)
    batch = rig.producer.create_batch()
    batch.append(timestamp=None, key=None, value=b"v")
    await rig.producer.send_batch(batch, "t", partition=2)
    assert [sent.partition for sent in await rig.deliver()] == [1, 2]
    assert rig.outstanding == 0
    await rig.stop()


@on_a_loop
async def test_after_its_poller_has_ended_records_go_by_what_the_client_knows() -> None:
    rig = await a_rig()
    rig.poller.close()
    learn(rig.producer, {"t": [1, -1, -1]})
    for _ in range(10):
        await rig.producer.send("t", b"v")
    assert {sent.partition for sent in await rig.deliver()} == {0}
    await rig.stop()


# -- what the failure detector learns ------------------------------------------------------------------


@on_a_loop
async def test_a_record_is_in_flight_until_it_is_answered_whether_or_not_who_waits_gives_up() -> None:
    rig = await a_rig()
    future = await rig.producer.send("t", b"v")
    assert rig.outstanding == 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(future, 0.01)
    assert rig.outstanding == 1, "the record goes on"
    await rig.deliver()
    assert rig.outstanding == 0
    await rig.stop()


@on_a_loop
async def test_brokers_are_judged_while_a_record_waits_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    polled: list[bool] = []
    monkeypatch.setattr(ProducerReports, "polled", lambda _: polled.append(True))
    rig = await a_rig()
    await rig.producer.send("t", b"v")
    await until(lambda: len(polled) >= 2)
    await rig.deliver()
    await until(lambda: rig.adapter._timer is None)
    polled.clear()
    await asyncio.sleep(0.05)
    assert not polled
    await rig.stop()


@on_a_loop
async def test_a_loop_that_was_blocked_reads_answers_before_judging(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = await a_rig(rescue="hedge")
    served: list[bool] = []
    monkeypatch.setattr(rig.adapter.flight, "served", lambda *, hedges=True: served.append(hedges))
    adapter = rig.adapter
    adapter._see_to()
    adapter._timer.cancel()
    adapter._due -= 2 * LATE_S
    adapter._serve()
    assert served == [], "the first time it only waits"
    adapter._due -= 2 * LATE_S
    adapter._serve()
    assert served == [False], "a loop that is always late does judge, and has no time for copies"
    adapter._due = asyncio.get_running_loop().time()
    adapter._serve()
    assert served == [False, True]
    await rig.stop()


# -- copies --------------------------------------------------------------------------------------------


@on_a_loop
async def test_a_record_that_times_out_is_sent_again() -> None:
    rig = await a_rig(rescue="failed")
    future = await rig.producer.send("t", b"v", headers=[("own", b"1")], timestamp_ms=7)
    (original,) = rig.taken()
    headers: list[Any] = []
    append = type(original.batch).append

    def note(batch: Any, *arguments: Any, **named: Any) -> Any:
        headers.append((arguments, named["headers"]))
        return append(batch, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(original.batch), "append", note)
        original.fail(RequestTimedOutError())
        await reports()
        rig.adapter.flight.served()
    (copy,) = rig.taken()
    assert copy.partition != original.partition
    ((key, value, stamp), sent) = headers[0]
    assert (key, value, stamp) == (None, b"v", 7)
    assert [name for name, _ in sent] == ["own", ID_HEADER]
    copy.arrive(5)
    assert (await outcome(future)).offset == 5
    assert (rescue_stats(rig.producer).copies, rescue_stats(rig.producer).saved) == (1, 1)
    await rig.stop()


@on_a_loop
async def test_an_application_that_gives_up_on_a_record_leaves_it_its_copy() -> None:
    rig = await a_rig(rescue="failed")
    future = await rig.producer.send("t", b"v")
    future.cancel()
    (original,) = rig.taken()
    original.fail(RequestTimedOutError())
    await reports()
    rig.adapter.flight.served()
    await rig.deliver()
    assert rescue_stats(rig.producer).saved == 1
    await rig.stop()


@on_a_loop
async def test_flush_waits_for_copies() -> None:
    rig = await a_rig(rescue="failed")
    future = await rig.producer.send("t", b"v")
    rig.taken()[0].fail(RequestTimedOutError())
    flushed = asyncio.ensure_future(rig.producer.flush())
    await asyncio.sleep(0.05)
    assert not flushed.done()
    await rig.deliver()
    await asyncio.wait_for(flushed, 5)
    assert future.done()
    await rig.stop()


@on_a_loop
async def test_what_is_sent_after_stop_is_refused_and_stop_says_so_once() -> None:
    rig = await a_rig(rescue="failed")
    await rig.producer.stop()
    with pytest.raises(ProducerClosed):
        await rig.producer.send("t", b"v")
    await rig.producer.stop()
    rig.poller.close()
