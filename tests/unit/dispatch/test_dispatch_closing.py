"""Closing: nothing is handed over any more, and the listener is told once."""

from kafka_partition_events.metadata.dispatch import Mailbox
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

    def test_without_a_worker_close_still_tells_the_listener(self, open_mailbox: Open) -> None:
        listener = RecordingListener()
        open_mailbox(listener).close(wait=WAIT_S)
        assert listener.closed == 1

    def test_as_a_context_manager(self, open_mailbox: Open) -> None:
        listener = RecordingListener()
        closed: list[Mailbox] = []
        with open_mailbox(listener, on_closed=closed.append) as mailbox:
            assert closed == []
        assert mailbox in closed
        mailbox.close(wait=WAIT_S)
        assert listener.closed == 1
