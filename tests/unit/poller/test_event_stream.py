"""``async for event in poller.events()``, and closing a poller on a loop."""

import asyncio
import gc
import threading
from contextlib import aclosing
from typing import Any

import pytest

from kafka_partition_events import Event, PartitionChangeListener, PollerClosedError, Resync, TopicAdded
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.testing.scripted import ScriptedSource
from tests.loop_kit import on_a_loop
from tests.poller_kit import WAIT_S, Pollers, eventually, orders, until
from tests.unit.dispatch.mail import news
from tests.unit.dispatch.test_async_hooks import Noting


def emit(poller: MetadataPoller, count: int) -> None:
    for event in news(*range(count)).events:
        poller.emit(event)


async def reading(poller: MetadataPoller, **options: Any) -> tuple[Any, "asyncio.Task[Event]"]:
    """Return a stream that is registered, and the read that waits for its first event."""
    stream = poller.events(**options)
    first = asyncio.ensure_future(anext(stream))
    await until(lambda: bool(poller.registrations))
    return stream, first


class TestReading:
    @on_a_loop
    async def test_events_come_in_order_after_what_is(self, make: Pollers) -> None:
        poller = make(orders(1, 2, 3))
        poller.poll_once()
        async with aclosing(poller.events()) as stream:
            first = [await anext(stream) for _ in range(4)]
            assert any(isinstance(event, TopicAdded) for event in first)
            assert all(event.initial for event in first)
            emit(poller, 500)
            numbers = [(await anext(stream)).sequence for _ in range(500)]
            assert numbers == [*range(numbers[0], numbers[0] + 500)]

    @on_a_loop
    async def test_a_slow_reader_gets_a_resync_in_place_of_what_it_missed(self, make: Pollers) -> None:
        poller = make(orders(1))
        stream, first = await reading(poller, capacity=100)
        emit(poller, 1)
        got = [await first]
        emit(poller, 1000)
        lost = 0
        while len(got) - (lost > 0) + lost < 1001:
            got.append(await anext(stream))
            lost = sum(event.dropped for event in got if isinstance(event, Resync))
        assert lost > 0
        numbers = [event.sequence for event in got]
        assert numbers == sorted(numbers)
        await stream.aclose()


class TestLeaving:
    @on_a_loop
    async def test_leaving_the_loop_unregisters(self, make: Pollers) -> None:
        poller = make(orders(1))
        poller.poll_once()
        async for _event in poller.events():
            assert len(poller.registrations) == 1
            break
        gc.collect()
        await until(lambda: poller.registrations == ())

    @on_a_loop
    async def test_cancelling_the_reader_unregisters(self, make: Pollers) -> None:
        poller = make(orders(1))
        stream, first = await reading(poller)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert poller.registrations == ()
        assert await collected(stream) == []

    def test_a_loop_that_was_closed_unregisters_it(self, make: Pollers) -> None:
        poller = make(orders(1))
        loop = asyncio.new_event_loop()
        stream, first = loop.run_until_complete(reading(poller))
        emit(poller, 1)
        loop.run_until_complete(first)
        loop.close()
        emit(poller, 1)
        eventually(lambda: poller.registrations == ())
        del stream


async def collected(stream: Any) -> list[Event]:
    return [event async for event in stream]


class TestClosingThePoller:
    @on_a_loop
    async def test_it_ends_the_iteration_after_what_was_queued(self, make: Pollers) -> None:
        poller = make(orders(1))
        stream, first = await reading(poller)
        emit(poller, 200)
        await first
        await poller.aclose(WAIT_S)
        assert len(await collected(stream)) == 199
        assert [thread for thread in threading.enumerate() if "listener-events" in thread.name] == []
        with pytest.raises(PollerClosedError):
            await anext(poller.events())
        await poller.aclose()

    @on_a_loop
    async def test_it_ends_a_reader_that_waits(self, make: Pollers) -> None:
        poller = make(orders(1))
        stream, first = await reading(poller)
        emit(poller, 1)
        await first
        rest = asyncio.ensure_future(collected(stream))
        await asyncio.sleep(0.01)
        await poller.aclose(WAIT_S)
        assert await rest == []

    @on_a_loop
    async def test_hooks_run_while_it_is_closed(self, make: Pollers) -> None:
        listener = Noting()
        poller = make(orders(1))
        poller.start()
        registration = poller.register(listener)
        emit(poller, 20)  # the first poll may just be taken in; they come after it
        await until(lambda: registration.stats.delivered + registration.stats.lag >= 20)
        await poller.aclose(WAIT_S)
        assert len([number for number in listener.sequences if number]) >= 20
        assert listener.closed == 1
        assert not poller.health.running

    @on_a_loop
    async def test_a_hook_may_close_its_poller(self, make: Pollers) -> None:
        class Ending(Noting):
            async def on_event(self, event: Event) -> None:
                await poller.aclose(3600)
                await super().on_event(event)

        poller = make(orders(1))

        listener = Ending()
        poller.register(listener)
        emit(poller, 1)
        await until(lambda: listener.closed == 1)
        assert len(listener.sequences) == 1

    @on_a_loop
    async def test_calls_that_would_block_the_loop_say_what_to_call(self, make: Pollers) -> None:
        class OfTheLoop(ScriptedSource):
            loop: object = None

        source = OfTheLoop(orders(1))
        poller = make(source)
        registration = poller.register(Noting())
        with pytest.raises(RuntimeError, match=r"close would block the loop.*await poller.aclose"):
            poller.close()
        with pytest.raises(RuntimeError, match=r"refresh would block the loop.*to_thread"):
            poller.refresh(wait=1)
        assert not poller.refresh()
        assert await asyncio.to_thread(poller.refresh, 1)
        registration.close()
        stream = poller.events()  # whose reader needs the loop, too, as a source may
        await anext(stream)
        with pytest.raises(RuntimeError, match=r"await poller\.aclose"):
            poller.close()
        await stream.aclose()
        source.loop = asyncio.get_running_loop()
        with pytest.raises(RuntimeError, match="or its source"):
            poller.close()
        await poller.aclose()

    @on_a_loop
    async def test_without_anyone_on_the_loop_the_calls_block_as_ever(self, make: Pollers) -> None:
        class OfThreads(PartitionChangeListener):
            def on_event(self, event: Event) -> None:
                pass

        poller = make(orders(1))
        registration = poller.register(OfThreads())
        assert poller.refresh(wait=1)
        assert registration.wait_synced(WAIT_S)
        poller.close()
