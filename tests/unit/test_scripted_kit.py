"""The part of the test kit that needs no Kafka."""

import threading

import pytest

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.testing import Hang, ManualClock, RecordingListener, ScriptedSource, observe

WAIT_S = 10.0


class TestManualClock:
    def test_a_wait_ends_when_its_deadline_passes(self) -> None:
        clock, condition, woken = ManualClock(), threading.Condition(), threading.Event()

        def wait() -> None:
            with condition:
                clock.wait(condition, 10)
            woken.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        clock.wait_for_waiters()
        clock.advance(9.9)
        clock.wait_for_waiters()
        assert not woken.is_set()
        clock.advance(0.1)
        assert woken.wait(WAIT_S)
        waiting.join(WAIT_S)

    def test_waiting_for_waiters_gives_up(self) -> None:
        with pytest.raises(TimeoutError, match="0 threads"):
            ManualClock().wait_for_waiters(timeout=0.01)


class TestScriptedSource:
    def test_an_observation_may_insist(self) -> None:
        source = ScriptedSource(observe({"a": [1]}, requested=["a"]))
        answer = source.fetch(frozenset({"b"}), timeout=1)
        assert (answer.requested, set(answer.topics)) == (frozenset("a"), {"a"})

    def test_an_empty_script_says_so(self) -> None:
        with pytest.raises(MetadataFetchError, match="empty"):
            ScriptedSource().fetch(None, timeout=1)

    def test_hangs_until_released(self) -> None:
        hang = Hang(observe({"a": [1]}))
        source, answers = ScriptedSource(hang), []
        asking = threading.Thread(target=lambda: answers.append(source.fetch(None, timeout=1)))
        asking.start()
        hang.wait_entered()
        assert not answers
        hang.release()
        asking.join(WAIT_S)
        assert answers
        with pytest.raises(MetadataFetchError, match="hung"):
            ScriptedSource(Hang(limit=0)).fetch(None, timeout=1)


def test_a_wrong_word_is_named() -> None:
    with pytest.raises(ValueError, match="lead"):
        observe({"orders": [{"lead": 1}]})  # type: ignore[list-item]


def test_waiting_in_vain_tells_what_came_instead() -> None:
    listener = RecordingListener()
    Event().deliver(listener)
    with pytest.raises(TimeoutError, match="so far: event"):
        listener.wait_for(2, timeout=0.01)
