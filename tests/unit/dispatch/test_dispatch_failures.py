"""Listeners that raise: counted, paused for a while, and nobody else's trouble."""

from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.registration import FAILURES_BEFORE_PAUSE, PAUSE_S
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.recording import RecordingListener
from tests.unit.dispatch.mail import WAIT_S, Failing, Open, news, sequences


class TestFailures:
    def test_a_listener_that_raises_loses_that_event_only(self, open_mailbox: Open) -> None:
        listener = Failing(times=1)
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2, 3))
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [2, 3]
        stats = mailbox.stats
        assert (stats.delivered, stats.failures, stats.paused) == (2, 1, False)
        assert "the listener's own trouble" in str(stats.last_error)

    def test_repeated_failures_pause_it(self, open_mailbox: Open, clock: ManualClock) -> None:
        listener = Failing(times=FAILURES_BEFORE_PAUSE + 2)
        mailbox = open_mailbox(listener)
        mailbox.put(news(*range(1, 11)))
        for number in range(3):
            clock.wait_for_waiters()
            assert mailbox.stats.paused
            assert mailbox.stats.failures == FAILURES_BEFORE_PAUSE + number
            clock.advance(PAUSE_S - 0.01)
            clock.wait_for_waiters()
            assert mailbox.stats.paused
            clock.advance(0.01)
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [8, 9, 10]
        assert not mailbox.stats.paused

    def test_a_success_in_between_resets_the_row(self, open_mailbox: Open) -> None:
        class Now(RecordingListener):
            def on_event(self, event: Event) -> None:
                if event.sequence % FAILURES_BEFORE_PAUSE:
                    raise ZeroDivisionError
                super().on_event(event)

        listener = Now()
        mailbox = open_mailbox(listener)
        mailbox.put(news(*range(1, 4 * FAILURES_BEFORE_PAUSE + 1)))
        assert mailbox.wait_synced(WAIT_S), "with this clock a pause would never end"
        assert len(listener.events) == 4
        assert mailbox.stats.failures == 4 * (FAILURES_BEFORE_PAUSE - 1)

    def test_closing_ends_a_pause(self, open_mailbox: Open, clock: ManualClock) -> None:
        listener = Failing(times=FAILURES_BEFORE_PAUSE)
        mailbox = open_mailbox(listener)
        mailbox.put(news(*range(10)))
        clock.wait_for_waiters()
        mailbox.close(wait=WAIT_S)
        assert listener.closed == 1

    def test_one_that_would_exit_its_thread_has_failed_and_goes_on(self, open_mailbox: Open) -> None:
        listener = Failing(times=1, error=SystemExit(3))
        mailbox = open_mailbox(listener)
        mailbox.put(news(1, 2))
        assert mailbox.wait_synced(WAIT_S)
        assert sequences(listener) == [2]
        assert (mailbox.stats.failures, mailbox.stats.last_error) == (1, "SystemExit(3)")

    def test_a_close_that_raises_stays_its_own_affair(self, open_mailbox: Open) -> None:
        class Stubborn(RecordingListener):
            def close(self) -> None:
                super().close()
                raise ZeroDivisionError

        listener = Stubborn()
        mailbox = open_mailbox(listener)
        mailbox.close(wait=WAIT_S)
        mailbox.close(wait=WAIT_S)
        assert listener.closed == 1
