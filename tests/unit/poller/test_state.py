"""What an answer makes of what is known, and what there is to tell: no thread, no clock, no listener."""

from datetime import UTC, datetime, timedelta

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.metadata.state import Moment, PollState, StepResult, Timing, step
from kafka_partition_events.testing.scripted import cluster_of, observe
from tests.poller_kit import BROKERS, DOWN, orders

TIMING = Timing(interval=30.0, fetch_timeout=10.0, min_interval=0.25)


def at(seconds: float, sequence: int = 0) -> Moment:
    return Moment(seconds, on(seconds), sequence)


def on(seconds: float) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def look(
    state: PollState, answer: Observation | BaseException, seconds: float, sequence: int = 0
) -> tuple[PollState, StepResult]:
    """Take in an answer that was asked for a second before it came."""
    return step(state, answer, on(seconds - 1), at(seconds, sequence), 1.0)


def known(*answers: Observation | BaseException) -> PollState:
    """Return what is known after a look every ten seconds, the first at 10."""
    state = PollState(timing=TIMING, since=0.0)
    for n, answer in enumerate(answers, 1):
        state, _ = look(state, answer, 10.0 * n)
    return state


class TestAGoodAnswer:
    def test_ends_an_outage(self) -> None:
        state, news = look(known(orders(1), DOWN, DOWN), orders(2), 40, sequence=7)
        found = [(event.kind, event.generation, event.sequence) for event in news.events]
        assert found == [("metadata_recovered", 1, 8), ("leader_changed", 2, 9)]
        assert (state.health.failures, state.health.failed, state.health.last_error) == (0, 2, None)

    def test_that_is_refused_in_part_tells_that_last(self) -> None:
        """What partitioners find out by the snapshot comes in between, so the rest has no number yet."""
        before = known(observe({"orders": [1], "audit": [1]}, brokers=BROKERS))
        state, news = look(before, orders(2), 20)
        assert [event.kind for event in news.events] == ["leader_changed"]
        (rejected,) = news.rest
        assert isinstance(rejected, ev.MetadataRejected)
        assert (rejected.topic, rejected.reason) == ("audit", ev.Rejection.MISSING_TOPIC)
        assert state.health.refusals[ev.Rejection.MISSING_TOPIC] == 1


class TestTheTimeOfAChange:
    def test_is_unknown_for_a_topic_that_was_not_asked_for_before(self) -> None:
        before = known(observe({"a": [1]}, brokers=[1], requested=["a"]))
        _, news = look(before, observe({"a": [1], "b": [1]}, brokers=[1], requested=["a", "b"]), 20)
        (added,) = news.events
        assert (added.kind, added.initial, added.previous_at) == ("topic_added", True, None)

    def test_begins_with_the_first_doubt_of_what_is_believed_in_the_end(self) -> None:
        state = known(orders(1, 2))
        for seconds in (20, 30):
            state, news = look(state, orders(1), seconds)
            assert [event.kind for event in news.events] == []
        _, news = look(state, orders(1), 100)
        (recreated,) = news.events
        assert (recreated.kind, recreated.previous_at) == ("topic_recreated", on(9))


class TestWhatIsStored:
    STORED = cluster_of({"orders": [1], "audit": [2]}, BROKERS, generation=7, cluster_id="test")

    def resumed(self, topics: frozenset[str] | None = None) -> PollState:
        return PollState(timing=TIMING, since=1000.0).resumed(self.STORED, on(0), topics)

    def test_is_gone_on_from_as_if_it_were_the_last_look(self) -> None:
        answer = observe({"orders": [3], "audit": [2]}, brokers=BROKERS)
        state, news = look(self.resumed(), answer, 1010)
        recovered, moved = news.events
        assert isinstance(recovered, ev.MetadataRecovered)
        assert recovered.blind_s == 1010, "by wall clock: that of the look was another process's"
        assert (recovered.sequence, recovered.generation) == (1, 7)
        assert (recovered.observed_at, recovered.previous_at) == (1010, on(0))
        assert (moved.kind, moved.generation, moved.initial) == ("leader_changed", 8, False)
        assert moved.previous_at == on(0)
        assert state.usable is state.cluster

    def test_remains_as_far_as_it_is_asked_for(self) -> None:
        assert self.resumed(frozenset({"orders", "new"})).known.by_topic.keys() == {"orders"}


def test_what_nobody_follows_any_more_tells_nothing_if_it_was_never_there() -> None:
    before = known(observe({"a": [1], "b": [1]}, brokers=[1], requested=["a", "b"]))
    assert before.without(frozenset("c"), at(20)) == (before, StepResult())
