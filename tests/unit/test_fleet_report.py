"""The fleet report: what it counts, and what a reader sees."""

from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.spark.fleet.days import Days
from kafka_partition_events.spark.fleet.report.budget import budget
from kafka_partition_events.spark.fleet.report.heatmap import (
    MAX_HOURS,
    MAX_TOPICS,
    class_of,
    heatmap,
    percent,
)
from kafka_partition_events.spark.fleet.report.model import (
    BrokerLoad,
    BurnRate,
    FleetData,
    FleetOutage,
    TopicHour,
    burn_down,
    by_topic,
    spread,
)
from kafka_partition_events.spark.fleet.report.page import render, verdict
from kafka_partition_events.spark.model import Change, Span

START = datetime(2026, 11, 20, tzinfo=UTC)


def hour(topic: str = "orders", n: int = 0, *, partitions: int = 10, **seconds: Any) -> TopicHour:
    return TopicHour(
        topic=topic, hour=START + timedelta(hours=n), partition_s=partitions * 3_600.0, **seconds
    )


def outage(topic: str = "orders", *, ended: bool = True) -> FleetOutage:
    begun = START + timedelta(hours=30)
    return FleetOutage(
        topic=topic,
        partition=3,
        span=Span(
            began_after=begun - timedelta(seconds=5),
            began_by=begun,
            ended_after=begun + timedelta(seconds=60) if ended else None,
            ended_by=begun + timedelta(seconds=65) if ended else None,
            seen_until=START + timedelta(hours=48),
        ),
        leader_before=2,
        leader_after=1 if ended else None,
        cause=2,
    )


FLEET = FleetData(
    cluster="lkc-1",
    made_at=START + timedelta(days=3),
    days=Days(date(2026, 11, 20), date(2026, 11, 21)),
    until=START + timedelta(hours=48),
    target=0.999,
    outages=(outage(),),
    changes=(Change(name="partitions.added", after=START, by=START + timedelta(hours=2), topic="orders"),),
    hours=(hour(n=0), hour(n=30, offline_lo_s=60.0, offline_hi_s=70.0, incidents=1), hour("idle", 30)),
    burn=(BurnRate(window="5m", lo=15.0, hi=17.5), BurnRate(window="3d", lo=0.5, hi=0.5)),
    brokers=(
        BrokerLoad(broker=1, leaders=30, replicas=60, moved_to=10),
        BrokerLoad(broker=2, leaders=10, replicas=60, offline_replicas=2, moved_from=10),
    ),
    skewed_at=START + timedelta(hours=47),
    counts={"partition_outages": 1},
)


class Wellformed(HTMLParser):
    """Fails on a tag that is closed without being open; cells and rows may be left open, as HTML allows."""

    VOID = frozenset({"meta", "line", "rect", "polygon", "polyline", "path", "br"})
    OPTIONAL = frozenset({"td", "th", "tr", "li", "p", "thead", "tbody"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.VOID

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        while self.open and self.open[-1] != tag and self.open[-1] in self.OPTIONAL:
            self.open.pop()
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "title":
            self.titles.append(data)


def test_availability_is_a_range_of_the_watched_time() -> None:
    row = hour(offline_lo_s=360.0, offline_hi_s=720.0, blind_s=18_000.0)
    assert row.watched_s == 18_000.0
    assert row.availability == (1 - 720 / 18_000, 1 - 360 / 18_000)


def test_an_hour_that_nobody_watched_has_no_availability() -> None:
    assert hour(blind_s=36_000.0).availability is None


@pytest.mark.parametrize(
    ("offline_s", "style"),
    [(0.0, "up"), (0.1, "a"), (10.0, "b"), (100.0, "c"), (1_000.0, "d"), (20_000.0, "e")],
)
def test_an_hour_is_coloured_by_the_least_that_it_may_have_been(offline_s: float, style: str) -> None:
    assert class_of(hour(offline_hi_s=offline_s)) == style


def test_an_hour_that_nobody_watched_has_a_colour_of_its_own() -> None:
    assert class_of(hour(blind_s=36_000.0)) == "blind"


def test_the_topic_with_the_most_offline_time_comes_first() -> None:
    hours = [hour("a"), hour("b", offline_hi_s=5.0), hour("c", offline_hi_s=50.0), hour("c", 1)]
    assert list(by_topic(hours)) == ["c", "b", "a"]


def test_a_small_outage_never_reads_as_none() -> None:
    assert percent((0.999_999_9, 1.0)) == "99.999\N{EN DASH}100%"


def test_the_picture_is_of_the_latest_hours_and_the_worst_topics() -> None:
    hours = [hour(f"topic-{n:02}", n, offline_hi_s=float(n)) for n in range(MAX_TOPICS + 2)]
    hours.append(hour("latest", MAX_HOURS + 5, offline_hi_s=1e4))
    drawn = heatmap(hours)
    assert "3 topics with less offline time not drawn" in drawn
    assert "latest, 2026-12-04 05:00" in drawn
    assert "topic-05, 2026" not in drawn  # an hour that is too long ago


def test_the_budget_burns_by_what_may_and_what_must_have_been_offline() -> None:
    points = list(burn_down([hour(n=0), hour(n=1, offline_lo_s=18.0, offline_hi_s=36.0)], 0.999))
    assert [point.at for point in points] == [START + timedelta(hours=n) for n in range(3)]
    assert [(round(point.lo, 9), round(point.hi, 9)) for point in points] == [(1, 1), (1, 1), (0.5, 0.75)]


def test_hours_that_nobody_watched_have_no_budget() -> None:
    assert list(burn_down([hour(blind_s=36_000.0)], 0.999)) == []


@pytest.mark.parametrize("target", [0.0, 1.0, 99.9])
def test_a_target_is_a_share(target: float) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, such as 0\.999"):
        list(burn_down([hour()], target))


def test_a_budget_that_is_gone_is_called_spent() -> None:
    data = evolve(FLEET, hours=(hour(offline_lo_s=3_600.0, offline_hi_s=3_600.0),))
    assert "spent" in budget(data)


def test_spread_is_the_largest_by_the_mean() -> None:
    assert spread([30, 10]) == 1.5
    assert spread([0, 0]) is None
    assert spread([]) is None


@pytest.mark.parametrize(
    ("lo", "hi", "said"),
    [(0.0, 0.0, "was kept"), (10.0, 100.0, "can't be told"), (100.0, 200.0, "was broken")],
)
def test_the_verdict_is_not_surer_than_the_bounds(lo: float, hi: float, said: str) -> None:
    assert said in verdict(evolve(FLEET, hours=(hour(offline_lo_s=lo, offline_hi_s=hi),)))


def test_the_page_is_one_file_that_asks_nobody() -> None:
    page = render(FLEET)
    checked = Wellformed()
    checked.feed(page)
    for outside in ("<script", "http://", "https://", "url(", "@import"):
        assert outside not in page


def test_the_page_tells_outages_with_cause_and_bounds() -> None:
    page = render(FLEET)
    assert "11-21 05:59:55.0" in page
    assert "60.0\N{EN DASH}70.0" in page
    assert "2 replicas offline" in page
    assert "the largest broker holds 1.50 times the mean" in page
    assert '<strong class="bad">above</strong>' in page


def test_an_open_outage_is_said_to_be_open() -> None:
    page = render(evolve(FLEET, outages=(outage(ended=False),)))
    assert "still offline at the last news" in page
    assert "at least" in page


def test_names_are_escaped() -> None:
    page = render(evolve(FLEET, cluster="<b>", hours=(hour("<i>x"),), outages=(outage("<i>x"),)))
    assert "<i>x" not in page
    assert "&lt;b&gt;" in page


def test_an_empty_period_makes_a_page_too() -> None:
    empty = FleetData(cluster="lkc-1", made_at=START, days=FLEET.days, until=START, target=0.999)
    page = render(empty)
    assert "Nobody watched this cluster in the period." in page
    assert "No hour was watched." in page
