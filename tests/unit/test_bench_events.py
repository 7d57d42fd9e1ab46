"""The events benchmark's pure parts: what its world does, what its rows say, what becomes of results."""

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.events import __main__ as command
from benchmarks.events import world
from benchmarks.events.beside import minute
from benchmarks.events.dispatching import Prepared
from benchmarks.events.rows import HEADER, Row, Target, inverse
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

    def test_every_broker_has_as_much_to_do(self) -> None:
        topics = world.observation(0, lost=False).topics.values()
        led = Counter(p.leader for info in topics for p in info.partitions)
        assert set(led) == set(range(world.BROKERS))
        assert len(set(led.values())) == 1

    def test_without_the_isr_only_leaders_move(self) -> None:
        kinds = Counter(type(event) for event in world.Story(shrinks=False).next())
        assert kinds == {LeaderChanged: 10, BrokerRemoved: 1}

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
    def test_says_what_it_is_compared_to(self) -> None:
        row = Row(
            what="x", unit="s", ours=FAST, peer=("y", Spread(2, 2, 2)), ratio=Spread(0.5, 1, 2), digits=1
        )
        cells = row.cells()
        assert cells == ("x", "2.0 (1.0 - 4.0) s", "y: 2.0", "1.00 (0.50 - 2.00)", "-")
        assert len(cells) == len(HEADER)

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

    def test_rates_are_the_inverse_of_costs(self) -> None:
        assert inverse(FAST) == Spread(0.25, 0.5, 1.0)


class TestAMinute:
    def test_has_one_loss_and_four_scrapes_as_a_prometheus_does_them(self) -> None:
        mode = minute(60, listeners=True)
        assert (mode.scraped_at, mode.loss_at) == ((5, 20, 35, 50), 10)
        assert mode.scraped_before, "a process that has been there for a while"

    def test_without_listeners_has_the_same_loss_and_nothing_to_scrape(self) -> None:
        mode = minute(60, listeners=False)
        assert (mode.listeners, mode.scraped_before, mode.scraped_at, mode.loss_at) == (False, False, (), 10)

    def test_that_is_to_pass_sooner_has_all_of_it(self) -> None:
        mode = minute(6, listeners=True)
        assert mode.scraped_at == pytest.approx((0.5, 2, 3.5, 5))
        assert mode.loss_at == 1


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

    @pytest.mark.parametrize("words", [["reached"], ["reached", "--quick"]])
    def test_only_shows_a_part(
        self, parts: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert command.main(words) == 0
        assert parts == []
        assert "| a |" in capsys.readouterr().out

    def test_does_not_keep_quick_results(self, parts: list[str]) -> None:
        assert command.main(["--quick"]) == 1
        assert parts == []

    def test_knows_its_parts(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            command.main(["outbocks"])
        assert caught.value.code == 2
        assert "reached" in capsys.readouterr().err
