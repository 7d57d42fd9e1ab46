"""Closing: nothing is handed over any more, and the listener is told once."""

import threading
from typing import ClassVar

from kafka_partition_events import DefaultPartitioner, PartitionChangeListener
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.testing.recording import RecordingListener
from tests.unit.dispatch.mail import WAIT_S, Blocking, Open, news, sequences, state


class TestClosing:
    def test_nothing_is_handed_over_after_a_close_that_waited(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener)
        mailbox.put(state([1]))
        assert listener.entered.wait(WAIT_S)
        mailbox.put(state([2], generation=2))
        mailbox.close()
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert len(listener.events) == 1, "the one that was running"
        assert len(listener.changes) == 1
        assert listener.closed == 1

    def test_draining_delivers_what_is_queued_first(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener)
        for n in range(1, 6):
            mailbox.put(news(n))
        mailbox.close(drain=True)
        mailbox.put(news(6))
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert sequences(listener) == [1, 2, 3, 4, 5]

    def test_after_it_nothing_is_waited_for(self, open_mailbox: Open) -> None:
        listener = Blocking()
        mailbox = open_mailbox(listener)
        for n in range(1, 4):
            mailbox.put(news(n))
        assert listener.entered.wait(WAIT_S)
        mailbox.close()
        listener.let_go.set()
        mailbox.close(wait=WAIT_S)
        assert mailbox.wait_synced(0.0), "what was dropped is not to be handled any more"

    def test_a_listener_may_close_itself_inside_a_callback(self, open_mailbox: Open) -> None:
        class Leaving(RecordingListener):
            def on_event(self, event: Event) -> None:
                super().on_event(event)
                mailbox.close(wait=WAIT_S)

        listener = Leaving()
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2, 3))
        listener.wait_for(1)
        mailbox.close(wait=WAIT_S)
        assert sequences(listener) == [1]
        assert listener.closed == 1


class Audited(PartitionChangeListener):
    """An application's own listener, which is mixed with what it likes."""

    closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


class Held(DefaultPartitioner):
    released = False

    def close(self) -> None:
        self.released = True
        super().close()


class TestAPartitionerThatIsAListenerToo:
    def test_is_closed_in_each_of_its_classes_whatever_their_order(self, open_mailbox: Open) -> None:
        class Before(Audited, Held):
            pass

        class After(Held, Audited):
            pass

        for mixed in (Before(), After()):
            open_mailbox(mixed).close(wait=WAIT_S)
            assert (mixed.closed, mixed.released) == (1, True)

    def test_alone_it_costs_no_thread_and_with_a_hook_it_is_told(self, open_mailbox: Open) -> None:
        class Hooked(DefaultPartitioner, PartitionChangeListener):
            heard: ClassVar[list[int]] = []

            def on_event(self, event: Event) -> None:
                self.heard.append(event.sequence)

        open_mailbox(DefaultPartitioner()).put(news(1))
        assert not [t for t in threading.enumerate() if t.name.startswith("kpe-listener")]
        mailbox = open_mailbox(Hooked())
        mailbox.put(news(1))
        assert mailbox.wait_synced(WAIT_S)
        assert Hooked.heard == [1]
