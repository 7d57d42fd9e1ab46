"""The part of the test kit that needs no Kafka."""

import threading
from datetime import timedelta

import pytest

from kafka_partition_events import testing
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Node, TopicInfo
from kafka_partition_events.metadata.events import Event, MetadataStale
from kafka_partition_events.testing import (
    Hang,
    ManualClock,
    RecordingListener,
    ScriptedSource,
    cluster_of,
    observe,
)

WAIT_S = 10.0


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_can_be_imported_from_the_kit(name: str) -> None:
    assert getattr(testing, name).__name__ == name


class TestManualClock:
    def test_both_times_move_by_command_only(self) -> None:
        clock = ManualClock(start=5.0)
        before = clock.now()
        clock.advance(1.5)
        assert clock.monotonic() == 6.5
        assert clock.now() - before == timedelta(seconds=1.5)
        with pytest.raises(ValueError, match="go back"):
            clock.advance(-1)

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

    @pytest.mark.parametrize("timeout", [None, 10.0])
    def test_a_wait_ends_when_its_condition_is_notified(self, timeout: float | None) -> None:
        clock, condition = ManualClock(), threading.Condition()
        told = False

        def wait() -> None:
            with condition:
                while not told:
                    clock.wait(condition, timeout)

        waiting = threading.Thread(target=wait)
        waiting.start()
        with condition:
            told = True
            condition.notify_all()
        waiting.join(WAIT_S)
        assert not waiting.is_alive()

    def test_a_wait_for_no_time_is_over_at_once(self) -> None:
        condition = threading.Condition()
        with condition:
            ManualClock().wait(condition, 0)

    def test_waiting_for_waiters_gives_up(self) -> None:
        with pytest.raises(TimeoutError, match="0 threads"):
            ManualClock().wait_for_waiters(timeout=0.01)


class TestScriptedSource:
    def test_plays_its_steps_and_repeats_the_last(self) -> None:
        source = ScriptedSource(observe({"a": [1]}), MetadataFetchError("down"), observe({"a": [2]}))
        assert source.fetch(None, started_at=1.0, timeout=1).topics["a"].partitions[0].leader == 1
        with pytest.raises(MetadataFetchError, match="down"):
            source.fetch(None, started_at=2.0, timeout=1)
        for at in (3.0, 4.0):
            answer = source.fetch(None, started_at=at, timeout=1)
            assert (answer.topics["a"].partitions[0].leader, answer.started_at) == (2, at)
        source.then(observe({"a": [3]}))
        assert source.fetch(None, started_at=5.0, timeout=1).topics["a"].partitions[0].leader == 3

    def test_answers_about_what_it_was_asked_for(self) -> None:
        source = ScriptedSource(observe({"a": [1], "b": [1]}, errors={"c": "X", "d": "X"}))
        answer = source.fetch(frozenset({"a", "c"}), started_at=0.0, timeout=1)
        assert (set(answer.topics), set(answer.errors)) == ({"a"}, {"c"})
        assert answer.requested == frozenset({"a", "c"})
        assert source.asked == [frozenset({"a", "c"})]

    def test_an_observation_may_insist(self) -> None:
        source = ScriptedSource(observe({"a": [1]}, requested=["a"], started_at=7.0))
        answer = source.fetch(frozenset({"b"}), started_at=9.0, timeout=1)
        assert (answer.requested, answer.started_at, set(answer.topics)) == (frozenset("a"), 7.0, {"a"})

    def test_an_empty_script_says_so(self) -> None:
        with pytest.raises(MetadataFetchError, match="empty"):
            ScriptedSource().fetch(None, started_at=0.0, timeout=1)

    def test_hangs_until_released(self) -> None:
        hang = Hang(observe({"a": [1]}))
        source, answers = ScriptedSource(hang), []
        asking = threading.Thread(
            target=lambda: answers.append(source.fetch(None, started_at=0.0, timeout=1))
        )
        asking.start()
        hang.wait_entered()
        assert not answers
        hang.release()
        asking.join(WAIT_S)
        assert answers
        with pytest.raises(MetadataFetchError, match="hung"):
            ScriptedSource(Hang(limit=0)).fetch(None, started_at=0.0, timeout=1)

    def test_close_is_counted(self) -> None:
        source = ScriptedSource()
        source.close()
        assert source.closed == 1


class TestWords:
    def test_a_list_gives_the_leaders(self) -> None:
        cluster = cluster_of({"orders": [1, None, 7]}, brokers=[1, Node(2, "two", 9093, "r")])
        assert [p.leader for p in cluster.by_topic["orders"].partitions] == [1, None, None]
        assert cluster.nodes[2].rack == "r"

    def test_an_observation_names_even_a_leader_that_is_not_listed(self) -> None:
        seen = observe({"orders": [7]}, brokers=[1])
        assert seen.topics["orders"].partitions[0].leader == 7

    def test_a_mapping_says_the_rest(self) -> None:
        words = {"id": "A", "partitions": [{"leader": 1, "epoch": 7, "replicas": [1, 2], "isr": [1]}, 2]}
        seen = observe({"orders": words})  # type: ignore[dict-item]
        first, second = seen.topics["orders"].partitions
        assert (first.leader_epoch, first.replicas, first.isr, second.leader) == (7, (1, 2), (1,), 2)
        assert [node.id for node in seen.nodes] == [1, 2]

    def test_a_ready_topic_is_taken_as_it_is(self) -> None:
        info = TopicInfo("orders", (), "A")
        assert observe({"orders": info}).topics["orders"] is info

    def test_a_wrong_word_is_named(self) -> None:
        with pytest.raises(ValueError, match="lead"):
            observe({"orders": [{"lead": 1}]})  # type: ignore[list-item]


class TestRecordingListener:
    def test_keeps_and_forgets(self) -> None:
        listener = RecordingListener(name="mine")
        stale = MetadataStale(age_s=1, limit_s=1)
        for event in (Event(), stale):
            event.deliver(listener)
        assert listener.kinds() == ["event", "metadata_stale"]
        assert listener.of(MetadataStale) == [stale]
        assert listener.wait_for(2) == listener.events
        assert listener.wait_for(lambda events: stale in events)
        listener.clear()
        assert listener.kinds() == []

    def test_waiting_in_vain_tells_what_came_instead(self) -> None:
        listener = RecordingListener()
        Event().deliver(listener)
        with pytest.raises(TimeoutError, match="so far: event"):
            listener.wait_for(2, timeout=0.01)
