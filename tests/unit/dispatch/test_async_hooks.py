"""``async def`` hooks: on the application's loop, under the contract of all listeners."""

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from kafka_partition_events import ConfigurationError, PartitionChangeListener
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.registration import Registration
from tests.loop_kit import on_a_loop
from tests.poller_kit import eventually, until
from tests.unit.dispatch.mail import WAIT_S, Open, news, state


class Noting(PartitionChangeListener):
    """Notes what it got, on which thread, and whether two hooks ever ran at a time."""

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.threads: set[int] = set()
        self.running = self.most = self.closed = 0

    async def on_event(self, event: ev.Event) -> None:
        self.threads.add(threading.get_ident())
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        self.sequences.append(event.sequence)

    async def close(self) -> None:  # type: ignore[override]
        self.closed += 1


class TestTheContract:
    @on_a_loop
    async def test_hooks_run_on_the_loop_one_at_a_time_in_order(self, open_mailbox: Open) -> None:
        listener = Noting()
        mailbox = open_mailbox(listener)
        mailbox.put(news(*range(50)))
        mailbox.put(news(50))
        assert await asyncio.to_thread(mailbox.wait_synced, WAIT_S)
        assert listener.sequences == [*range(51)]
        assert (listener.most, listener.threads) == (1, {threading.get_ident()})
        assert mailbox.stats.delivered == 51
        mailbox.close()
        await until(lambda: listener.closed == 1)

    @on_a_loop
    async def test_one_that_waits_is_waited_for(self, open_mailbox: Open) -> None:
        class Waiting(Noting):
            async def on_event(self, event: ev.Event) -> None:
                order.append(event.sequence)
                await let_go.wait()
                await super().on_event(event)

        let_go, order = asyncio.Event(), list[int]()
        mailbox = open_mailbox(Waiting())
        mailbox.put(news(1))
        await until(lambda: bool(order))
        mailbox.put(news(2))
        await asyncio.sleep(0.01)
        assert order == [1]
        let_go.set()
        assert await asyncio.to_thread(mailbox.wait_synced, WAIT_S)
        assert order == [1, 2]

    @on_a_loop
    async def test_typed_and_settled_hooks_and_the_map_may_be_async(self, open_mailbox: Open) -> None:
        class Typed(PartitionChangeListener):
            def __init__(self) -> None:
                self.calls: list[str] = []

            async def on_topic_added(self, event: ev.TopicAdded) -> None:
                self.calls.append("added")

            async def on_settled(self, cluster: Cluster, polled_at: object) -> None:
                self.calls.append("settled")

            async def on_partitions_change(self, cluster: Cluster, partitions_changed: object) -> None:
                self.calls.append("map")

        listener = Typed()
        mailbox = open_mailbox(listener)
        mailbox.put(state([1]))
        assert await asyncio.to_thread(mailbox.wait_synced, WAIT_S)
        assert listener.calls == ["map", "added", "settled"]

    @pytest.mark.parametrize(
        "error", [ZeroDivisionError("own"), SystemExit(3), TimeoutError("hers"), asyncio.CancelledError()]
    )
    @on_a_loop
    async def test_one_that_raises_loses_one_event(self, open_mailbox: Open, error: BaseException) -> None:
        class Failing(Noting):
            async def on_event(self, event: ev.Event) -> None:
                await asyncio.sleep(0)
                if event.sequence == 1:
                    raise error
                await super().on_event(event)

        listener = Failing()
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2))
        assert await asyncio.to_thread(mailbox.wait_synced, WAIT_S)
        assert listener.sequences == [2]
        assert (mailbox.stats.failures, mailbox.stats.last_error) == (1, repr(error))

    @on_a_loop
    async def test_hooks_run_in_the_context_of_who_registered_the_listener(self, open_mailbox: Open) -> None:
        class Reading(Noting):
            async def on_event(self, event: ev.Event) -> None:
                await super().on_event(event)
                found.append(who.get())

        who: ContextVar[str] = ContextVar("who", default="nobody")
        found: list[str] = []
        who.set("registers")
        mailbox = open_mailbox(Reading())
        who.set("emits")
        mailbox.put(news(1, 2))
        assert await asyncio.to_thread(mailbox.wait_synced, WAIT_S)
        assert found == ["registers"] * 2

    def test_a_coroutine_that_no_async_def_announces_is_a_failure(self, open_mailbox: Open) -> None:
        class Wrapped(PartitionChangeListener):
            def __init__(self) -> None:
                self.inner = Noting()

            def on_event(self, event: ev.Event) -> Any:
                return self.inner.on_event(event)

        listener = Wrapped()
        mailbox = open_mailbox(listener)
        mailbox.put(news(1))
        assert mailbox.wait_synced(WAIT_S)
        assert "only what async def defines" in str(mailbox.stats.last_error)
        assert listener.inner.sequences == []

    def test_without_a_loop_it_is_refused(self, open_mailbox: Open) -> None:
        with pytest.raises(ConfigurationError, match=r"Noting\.close is async.*no loop runs"):
            open_mailbox(Noting())


class TestWaitingOnTheLoop:
    @on_a_loop
    async def test_waiting_for_a_listener_is_refused_where_that_blocks_it(self, open_mailbox: Open) -> None:
        mailbox = open_mailbox(Noting())
        with pytest.raises(RuntimeError, match=r"would block the loop.*to_thread"):
            mailbox.wait_synced(WAIT_S)

    @on_a_loop
    async def test_closing_waits_for_no_hook_there(self, open_mailbox: Open) -> None:
        listener = Noting()
        mailbox = open_mailbox(listener)
        mailbox.put(news(1))
        mailbox.close(wait=WAIT_S, drain=True)
        assert not listener.closed
        await until(lambda: listener.closed == 1)
        assert listener.sequences == [1]


class TestALoopThatEnds:
    def test_it_unregisters_its_listeners_with_one_line(
        self, open_mailbox: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        gone: list[Registration] = []
        mailbox: list[Registration] = []

        async def main() -> None:
            mailbox.append(open_mailbox(Noting(), on_closed=gone.append))
            mailbox[0].put(news(1))
            await asyncio.to_thread(mailbox[0].wait_synced, WAIT_S)

        on_a_loop(main)()
        mailbox[0].put(news(*range(2, 30)))
        eventually(lambda: bool(gone))
        mailbox[0].close(wait=WAIT_S)
        # asyncio may complain of a slow callback, say.
        lines = [record.message for record in caplog.records if record.name != "asyncio"]
        assert lines == ["listener_loop_ended listener=Noting"]
        assert mailbox[0].stats.failures == 0

    def test_one_that_ends_amid_a_hook_cancels_it(self, open_mailbox: Open) -> None:
        class Endless(Noting):
            cancelled = False

            async def on_event(self, event: ev.Event) -> None:
                self.running += 1
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.cancelled = True
                    raise

        listener = Endless()
        gone: list[Registration] = []

        async def main() -> None:
            open_mailbox(listener, on_closed=gone.append).put(news(1, 2, 3))
            await until(lambda: listener.running > 0)

        asyncio.run(main(), debug=True)  # a hook is left on it
        assert listener.cancelled
        eventually(lambda: bool(gone))
        assert listener.running == 1, "nothing was begun that could not end"

    @pytest.mark.parametrize("closed", [False, True])
    def test_one_that_stands_still_is_not_waited_for(self, open_mailbox: Open, closed: bool) -> None:
        loop = asyncio.new_event_loop()
        listener = Noting()
        gone: list[Registration] = []

        async def register() -> Registration:
            return open_mailbox(listener, on_closed=gone.append)

        mailbox = loop.run_until_complete(register())
        mailbox.put(news(1))
        if closed:
            loop.close()
            mailbox.put(news(2))
        else:
            mailbox.close(wait=3600, drain=True)
        assert gone
        assert listener.sequences == []
        if not closed:
            loop.run_until_complete(asyncio.sleep(0.01))
            loop.close()
            assert (listener.sequences, listener.closed) == ([1], 1)
