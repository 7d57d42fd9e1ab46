"""Keys of an aiokafka producer that is attached: what waits has a future, and is sent later. No broker."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError, ProducerClosed

from kafka_partition_events.clients.aiokafka import key_stats
from kafka_partition_events.clients.aiokafka.calls import Calls
from kafka_partition_events.clients.aiokafka.second import SecondAccumulator
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.health.in_flight import MAIN, STANDBY
from tests.loop_kit import on_a_loop
from tests.poller_kit import until
from tests.unit.aiokafka_kit import Rig, a_rig, outcome


@pytest.fixture(autouse=True)
def it_believes_what_tests_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("answered", "failed", "withdrawn", "polled", "unreachable"):
        monkeypatch.setattr(ProducerReports, name, lambda *_arguments: None)


async def waiting(**options: Any) -> tuple[Rig, list[Any]]:
    """Return a producer of which a key has a record outstanding on the first way, and one that waits."""
    rig = await a_rig(**options)
    home = rig.partitioner.home(rig.partitioner.route("t"), b"key")
    rig.suspect(4)  # it leads nothing
    await rig.second_way()
    rig.trust()
    first = await rig.producer.send("t", b"1", b"key")
    rig.suspect(4 if "keys" not in options else [1, 2, 3][home])
    return rig, [first, await rig.producer.send("t", b"2", b"key")]


@on_a_loop
async def test_a_record_that_waits_has_a_future_and_goes_by_the_second_way() -> None:
    rig, (first, second) = await waiting()
    assert key_stats(rig.producer).waiting == 1
    assert [sent.records for sent in await rig.deliver(MAIN)] == [1]
    rig.adapter.flight.served()
    assert key_stats(rig.producer).waiting == 0
    (taken,) = rig.taken(STANDBY)
    taken.arrive(7)
    assert (await outcome(first)).offset == 0
    assert ((await outcome(second)).offset, (await outcome(second)).partition) == (7, taken.partition)
    await rig.stop()


@on_a_loop
async def test_a_second_way_that_has_failed_is_not_used_any_more() -> None:
    rig = await a_rig()
    rig.suspect(4)
    await rig.second_way()
    rig.accumulator(STANDBY).fail_all(TimeoutError("its sender has ended"))
    await rig.producer.send("t", b"v")
    assert rig.taken(MAIN)
    await rig.stop()


@on_a_loop
async def test_flush_and_stop_wait_for_what_waits() -> None:
    rig, (_, second) = await waiting()
    flushed = asyncio.ensure_future(rig.producer.flush())
    await asyncio.sleep(0.03)
    assert not flushed.done()
    await rig.deliver(MAIN)
    while not second.done():
        await asyncio.sleep(0.01)
        await rig.deliver(STANDBY)
    await asyncio.wait_for(flushed, 5)
    await rig.stop()


@on_a_loop
async def test_stop_ends_though_the_senders_have_ended() -> None:
    """All tasks of a loop are cancelled at its end: then no one sends what they have."""
    rig, (_, second) = await waiting()
    for sender in (rig.producer._sender, next(iter(rig.adapter.made))._sender):
        sender.sender_task.cancel()
    await asyncio.wait_for(rig.producer.stop(), 5)
    second.cancel()  # it was held, or is in a batch that no one sends, as with aiokafka's own producer
    assert second.cancelled() or type(second.exception()) is ProducerClosed
    await rig.deliver(MAIN)  # a task of aiokafka's own has been left to wait for that


@on_a_loop
async def test_who_sends_to_a_key_that_waits_leaves_the_loop_its_turn() -> None:
    rig, _ = await waiting()
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await rig.producer.send("t", b"v", key=b"key")
    assert turns, "else what it waits for would never be answered"
    rig.adapter.flight.purge()
    rig.adapter.flight.served()
    await rig.stop()


@pytest.mark.parametrize(("ends", "error"), [("too late", KafkaTimeoutError), ("gone", ProducerClosed)])
@on_a_loop
async def test_what_waits_too_long_or_for_a_producer_that_is_gone_fails(ends: str, error: type) -> None:
    rig, (_, second) = await waiting()
    if ends == "gone":
        rig.adapter.flight.purge()
    else:
        rig.adapter.most_held_s = -1
        await rig.deliver(MAIN)
    rig.adapter.flight.served()
    assert type(await outcome(second)) is error
    await rig.stop()


@pytest.mark.parametrize("is_noted", [True, False])
@on_a_loop
async def test_a_second_way_that_is_just_being_made_is_not_left_when_the_producer_stops(
    monkeypatch: pytest.MonkeyPatch, is_noted: bool
) -> None:
    """Also where the thread that makes it has not noted yet what it has running: the machine is busy."""
    rig = await a_rig()
    if not is_noted:

        def end(calls: Calls) -> None:
            calls.ended = True

        monkeypatch.setattr(Calls, "end", end)
    begun, may_go_on = asyncio.Event(), asyncio.Event()
    start, stop = SecondAccumulator.start, AIOKafkaProducer.stop

    async def start_late(second: SecondAccumulator) -> None:
        begun.set()
        await may_go_on.wait()
        await start(second)

    async def stop_late(producer: AIOKafkaProducer) -> None:
        may_go_on.set()
        for _ in range(4):
            await asyncio.sleep(0)
        await stop(producer)

    monkeypatch.setattr(SecondAccumulator, "start", start_late)
    monkeypatch.setattr(AIOKafkaProducer, "stop", stop_late)
    before = asyncio.all_tasks()
    rig.adapter._detour.handle()
    await begun.wait()
    await rig.producer.stop()
    rig.poller.close()
    await until(lambda: asyncio.all_tasks() <= before)
