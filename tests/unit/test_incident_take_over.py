"""Who is elected goes on with what was told: nothing is told a second time under another id."""

from datetime import datetime, timedelta

import pytest

from kafka_partition_events.incidents.causes import Cause
from kafka_partition_events.incidents.handover import Opened, encode_opened
from kafka_partition_events.outbox import Entry
from tests.incident_kit import moment
from tests.watch_kit import Watch, data, scratch_watch

THEIRS = "0f0f0f0f-0000-5000-8000-000000000000"


@pytest.fixture
def watch() -> Watch:
    watch = scratch_watch()
    watch.read()
    watch.clock.advance(10)
    return watch


def told(entries: list[Entry]) -> list[tuple[str, int, bool]]:
    """Return what was told, of which broker, and whether under the former leader's id."""
    return [
        (e.name.removeprefix("incident."), data(e)["cause"]["broker"], data(e)["incident_id"] == THEIRS)
        for e in entries
    ]


def they_have_told(watch: Watch, broker: int) -> None:
    opened = Opened(cause=Cause(broker=broker), id=THEIRS, opened_at=moment(40))
    watch.theirs = {opened.key: encode_opened(opened)}


def flap(watch: Watch) -> None:
    for _ in range(2):
        watch.world.down(1)
        watch.look()
        watch.after(60)
        watch.world.up(1)
        watch.look()
        watch.after(5)


def test_what_opens_while_the_shared_topic_can_not_be_read_is_told_once(watch: Watch) -> None:
    watch.theirs = None
    watch.lead()
    watch.world.down(1)
    watch.look()
    found = watch.after(60)  # and the sinks have it
    watch.theirs = {}
    assert told(found + watch.after(1) + watch.after(1)) == [("opened", 1, False)]


def test_what_opens_in_the_round_of_the_take_over_is_told_once(watch: Watch) -> None:
    watch.lead()
    watch.world.down(1)
    watch.look()
    assert told(watch.after(60) + watch.after(1)) == [("opened", 1, False)]


def test_what_the_news_of_that_round_opens_is_told_once(watch: Watch) -> None:
    watch.world.down(1)
    watch.look()
    watch.read()
    watch.clock.advance(40)
    watch.lead()
    watch.world.down(3)
    watch.look()  # the look tells that the first one is down for longer than its hold-down
    assert told(watch.read() + watch.after(1) + watch.after(60)) == [
        ("opened", 1, False),
        ("opened", 3, False),
    ]


def test_what_the_news_of_that_round_would_open_and_is_told_goes_on(watch: Watch) -> None:
    watch.world.down(1)
    watch.look()
    watch.read()
    watch.clock.advance(40)
    they_have_told(watch, 1)
    watch.lead()
    watch.world.down(3)
    watch.look()
    assert told(watch.read() + watch.after(60)) == [("opened", 3, False)]
    watch.world.up(1)
    watch.look()
    assert told(watch.read()) == [("closed", 1, True)]


def test_what_ends_in_that_round_is_told_to_be_over_once(watch: Watch) -> None:
    watch.world.down(1)
    watch.look()
    watch.read()
    watch.clock.advance(20)
    they_have_told(watch, 1)
    watch.lead()
    watch.world.up(1)
    watch.look()
    assert told(watch.read() + watch.after(60)) == [("closed", 1, True)]


def test_what_lies_unread_when_it_is_elected_is_not_told_as_over(watch: Watch) -> None:
    """Its beginning lies behind a thousand other entries."""
    watch.world.create("wide", [[2]] * 1500)
    watch.look()
    watch.world.down(2)
    watch.look()
    watch.world.down(1)
    watch.look()
    they_have_told(watch, 1)
    watch.lead()
    found = watch.read()
    assert [entry for entry in found if entry.name == "incident.closed"] == []


def test_what_was_told_here_and_passed_over_is_told_if_nobody_else_has(watch: Watch) -> None:
    watch.world.down(1)
    watch.look()
    before = watch.after(60)
    watch.lead()
    (again,) = watch.after(1) + watch.after(1)
    assert told([*before, again]) == [("opened", 1, False)] * 2
    assert len({data(each)["incident_id"] for each in (*before, again)}) == 2


def test_what_was_open_here_for_it_flapped_is_held_down_once_more(
    watch: Watch,
) -> None:
    """An hour of torment found it: it was told at once, as what had begun long before it was up again."""
    flap(watch)
    watch.clock.advance(300)
    watch.world.down(1)
    watch.look()
    watch.read()
    watch.lead()
    assert watch.after(1) + watch.after(19) == []
    (opened,) = watch.after(15)
    assert told([opened]) == [("opened", 1, False)]
    down_at, opened_at = (
        datetime.fromisoformat(at) for at in (data(opened)["began"]["by"], data(opened)["opened_at"])
    )
    assert opened_at - down_at == timedelta(seconds=30)


def test_what_was_open_here_for_it_flapped_and_is_up_is_not_told(watch: Watch) -> None:
    flap(watch)
    watch.lead()
    assert [entry.name for entry in watch.after(1) + watch.after(1000)] == ["flapping.stopped"]


def test_what_the_next_look_may_find_up_is_not_told_at_the_take_over(watch: Watch) -> None:
    watch.world.down(1)
    watch.look()
    watch.read()
    watch.looked_to = watch.clock.now()
    watch.clock.advance(40)
    watch.lead()
    assert watch.read() == []
    watch.ahead = -15.0  # what comes now was found 25 s after it went down, before its hold-down was over
    watch.world.up(1)
    watch.look()
    watch.looked_to = watch.clock.now()
    assert watch.after(60) == []


def test_what_was_begun_anew_by_a_clock_that_was_ahead_is_told_by_the_right_one(watch: Watch) -> None:
    watch.world.down(1)
    watch.look()
    watch.after(60)
    watch.clock.advance(86_400)
    watch.lead()
    watch.read()
    watch.clock.set_back(86_400)
    watch.reader = watch.another_reader()
    watch.reader.lead(watch.outbox.stats("a sink").cursor)
    assert told(watch.after(1) + watch.after(60)) == [("opened", 1, False)]


def test_what_somebody_has_closed_meanwhile_is_not_told_anew(watch: Watch) -> None:
    watch.world.down(2)
    watch.look()
    watch.after(60)
    watch.decide("close", "known")
    watch.lead()
    assert told(watch.after(1) + watch.after(60)) == [("closed", 2, False)]


def test_it_says_what_it_has_told_only_when_it_has_taken_over(watch: Watch) -> None:
    watch.theirs = None
    said = [watch.reader.stats.told_open]
    watch.lead()
    for is_read in (False, True):
        watch.theirs = {} if is_read else None
        watch.after(1)
        said.append(watch.reader.stats.told_open)
    watch.world.down(1)
    watch.look()
    watch.after(60)
    assert [*said, list(watch.reader.stats.told_open or ())] == [None, None, {}, ["open/broker/1"]]
    watch.reader.stand_by()
    assert watch.reader.stats.told_open is None


def test_who_is_elected_once_more_takes_over_once_more(watch: Watch) -> None:
    watch.lead()
    watch.after(1)
    watch.reader.stand_by()
    watch.world.down(1)
    watch.look()
    watch.after(60)
    they_have_told(watch, 1)
    watch.lead()
    assert watch.after(1) == []
    watch.world.up(1)
    watch.look()
    assert told(watch.read()) == [("closed", 1, True)]
