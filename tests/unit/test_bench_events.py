"""The events benchmark's pure parts: what its world does, what its rows say, what becomes of results."""

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.events import __main__ as command
from benchmarks.events import world
from benchmarks.events.dispatching import Prepared
from benchmarks.events.rows import Row, Target
from benchmarks.measure import Spread
from kafka_partition_events import BrokerAdded, BrokerRemoved, IsrChanged, LeaderChanged
from kafka_partition_events.listeners import to_cloudevent

FAST = Spread(1.0, 2.0, 4.0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One topic for each place on the ring of brokers where a topic can begin: 1/200 of the world."""
    monkeypatch.setattr(world, "TOPICS", 25)


@pytest.mark.usefixtures("small")
class TestTheWorld:
    def test_a_lost_broker_moves_2000_leaders_in_400_topics_and_leaves_6000_isrs(self) -> None:
        events = world.Story(shrinks=True).next()
        moved = [event for event in events if isinstance(event, LeaderChanged)]
        assert len(moved) * 200 == 2_000
        assert len({event.topic for event in moved}) * 200 == 400
        assert {event.old.leader for event in moved} == {world.LOST}
        shrunk = [event for event in events if isinstance(event, IsrChanged)]
        assert len(shrunk) * 200 == 6_000
        assert {(event.left, event.joined) for event in shrunk} == {(frozenset({world.LOST}), frozenset())}
        assert isinstance(events[-1], BrokerRemoved)
        assert len(events) == len(moved) + len(shrunk) + 1

    def test_the_broker_comes_back_with_all_that_it_had(self) -> None:
        story = world.Story(shrinks=True)
        lost, back = story.next(), story.next()
        kinds = Counter(type(event) for event in back)
        assert kinds == {LeaderChanged: 10, IsrChanged: 30, BrokerAdded: 1}
        assert len(lost) == len(back)

    def test_no_event_comes_twice_however_often_the_broker_goes(self) -> None:
        story = world.Story(shrinks=True)
        ids = [to_cloudevent(event).get_id() for _ in range(4) for event in story.next()]
        assert len(set(ids)) == len(ids)

    def test_answers_share_no_topic_or_partition(self) -> None:
        source = Prepared()
        answers = []
        for _ in range(2):
            answers.append(source.fetch(None, started_at=1.0, timeout=1.0))
            source.prepare()
        healthy, lost = answers
        assert len(healthy.nodes) - len(lost.nodes) == 1
        assert all(healthy.topics[name] is not info for name, info in lost.topics.items())


class TestARow:
    @pytest.mark.parametrize(
        ("target", "kept", "text"),
        [
            (Target(least=2), True, ">= 2: yes"),
            (Target(least=2.5), False, ">= 2.5: **no**"),
            (Target(most=2), True, "<= 2: yes"),
            (Target(most=1), False, "<= 1: **no**"),
        ],
    )
    def test_is_judged_by_its_median(self, target: Target, kept: bool, text: str) -> None:
        row = Row(what="x", unit="s", ours=FAST, target=target)
        assert (row.kept, row.cells()[-1], row.raw()["kept"]) == (kept, text, kept)

    def test_is_judged_by_its_ratio_where_that_is_the_target(self) -> None:
        row = Row(what="x", unit="s", ours=FAST, target=Target(least=0.95), judged=Spread(0.9, 0.96, 1))
        assert row.kept


class TestTheCommand:
    @pytest.fixture(autouse=True)
    def parts(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Two parts that measure nothing, and a record of what is saved."""
        saved: list[str] = []

        def reached(*, quick: bool) -> Iterator[Row]:
            yield Row(what="a", unit="s", ours=FAST, target=Target(most=9))

        def missed(*, quick: bool) -> Iterator[Row]:
            yield Row(what="b", unit="s", ours=FAST, target=Target(most=1))

        monkeypatch.setattr(command, "PARTS", {"reached": reached, "missed": missed})
        monkeypatch.setattr(command, "save", lambda name, *_: saved.append(name))
        return saved

    def test_keeps_the_results_of_a_whole_run_and_tells_a_missed_target(self, parts: list[str]) -> None:
        assert command.main([]) == 1
        assert parts == ["events"]
