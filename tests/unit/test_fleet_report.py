"""The fleet report and its words: what they say of what was counted. Without Spark."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.report.heatmap import MAX_HOURS, class_of, heatmap, percent
from kafka_partition_events.spark.report.model import (
    FleetData,
    Outage,
    Rated,
    RatedHour,
    RatedTopic,
    Span,
    TopicChange,
)
from kafka_partition_events.spark.report.outages import MAX_LANES, Scale
from kafka_partition_events.spark.report.page import render, verdict
from kafka_partition_events.spark.tables.days import Days

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def span(
    after: float | None, by: float, ended_after: float | None = None, ended_by: float | None = None
) -> Span:
    given = {"began_after": after, "began_by": by, "ended_after": ended_after, "ended_by": ended_by}
    moments: dict[str, Any] = {name: None if each is None else at(each) for name, each in given.items()}
    return Span(**moments, seen_until=at(60))


def outage(known: Span, topic: str = "orders", partition: int | None = 3) -> Outage:
    return Outage(topic=topic, partition=partition, span=known, leader_before=2, leader_after=1, cause=2)


def rated(partitions: int = 10, **seconds: Any) -> dict[str, Any]:
    return {"partition_s": partitions * 3_600.0, **seconds}


def hour(n: int = 0, **how: Any) -> RatedHour:
    return RatedHour(hour=START + timedelta(hours=n), **rated(**how))


CLOSED = span(8, 10, 20, 23)
EMPTY = FleetData(
    cluster="lkc-1",
    made_at=START + timedelta(days=3),
    days=Days(date(2026, 11, 20), date(2026, 11, 21)),
    until=START + timedelta(hours=48),
    target=0.999,
)
BAD_HOUR = hour(30, offline_lo_s=60.0, offline_hi_s=70.0, incidents=1)
FLEET = evolve(
    EMPTY,
    outages=(outage(CLOSED), outage(span(None, 30), "idle", 1)),
    outage_count=2,
    open_count=1,
    changes=(TopicChange(topic="orders", at=at(31), before=6, after=12),),
    hours=(hour(), BAD_HOUR),
    topics=(
        RatedTopic(topic="orders", hours=(hour(), BAD_HOUR), offline_hi_s=70.0, **rated()),
        RatedTopic(topic="idle", hours=(hour(30),), **rated()),
    ),
    topic_count=5,
)


class Page(HTMLParser):
    """Fails on what is not well formed, or asks anybody for anything."""

    VOID = frozenset({"meta", "line", "rect", "polygon", "polyline", "path", "br"})
    OPTIONAL = frozenset({"td", "th", "tr", "li", "p", "thead", "tbody"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said = ""
        self.feed(html)
        assert self.open == []
        assert not [outside for outside in ("http", "url(", "@import") if outside in html]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"script", "link", "img", "iframe", "object", "base", "form"}
        assert not {"src", "href", "srcset", "action"} & {name for name, _ in attrs}
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
        if "style" not in self.open:
            self.said += f"{data} "


# -- how long, how much --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (CLOSED, "10.0\N{EN DASH}15.0 s"),
        (span(8, 10, 8, 11), "0.0\N{EN DASH}3.0 s"),
        (span(None, 10, 20, 23), "at least 10.0 s"),
        (span(8, 10), "at least 50.0 s"),
        (span(None, 10), "at least 50.0 s"),
        (span(10, 10, 20, 20), "10.0 s"),
        (span(0, 10, 190, 300), "3 min 00 s \N{EN DASH} 5 min 00 s"),
        (span(0, 10, 100, 300), "90.0 s \N{EN DASH} 5 min 00 s"),
    ],
)
def test_an_outage_lasted_between_its_bounds(known: Span, said: str) -> None:
    assert wording.lasted(*known.seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (119.9, "119.9 s"), (120, "2 min 00 s"), (7199.7, "2 h 00 min"), (9000, "2 h 30 min")],
)
def test_durations(seconds: float, said: str) -> None:
    assert wording.duration(seconds) == said


def test_times_are_utc_whatever_their_zone_and_name_a_second_day() -> None:
    local = at(0.25).astimezone(datetime.now().astimezone().tzinfo)
    assert wording.clock(local) == "00:00:00.2"
    assert wording.between(at(-1), at(1)) == "11-19 23:59:59.0 \N{EN DASH} 11-20 00:00:01.0"


@pytest.mark.parametrize(
    ("row", "style"),
    [(hour(offline_hi_s=seconds), style) for seconds, style in
     ((0.0, "up"), (0.1, "a"), (10.0, "b"), (100.0, "c"), (1_000.0, "d"), (20_000.0, "e"))]
    + [(hour(blind_s=36_000.0), "blind")],
)  # fmt: skip
def test_an_hour_is_coloured_by_the_least_that_it_may_have_been(row: Rated, style: str) -> None:
    assert class_of(row) == style


def test_a_small_outage_never_reads_as_none() -> None:
    assert percent((0.999_999_9, 1.0)) == "99.999\N{EN DASH}100%"


@pytest.mark.parametrize(
    ("lo", "hi", "said"),
    [(0.0, 0.0, "was kept"), (10.0, 100.0, "is not known"), (100.0, 200.0, "was broken")],
)
def test_the_verdict_is_not_surer_than_the_bounds(lo: float, hi: float, said: str) -> None:
    assert said in verdict(evolve(FLEET, hours=(hour(offline_lo_s=lo, offline_hi_s=hi),)))


@pytest.mark.parametrize(
    ("blind_s", "offline_hi_s", "said"),
    [(1.0, 1.0, "was kept."), (30_000.0, 0.0, "not watched."), (20.0, 20.0, "not watched.")],
)
def test_no_promise_was_kept_while_nobody_watched(blind_s: float, offline_hi_s: float, said: str) -> None:
    hours = (hour(blind_s=blind_s, offline_hi_s=offline_hi_s),)
    assert verdict(evolve(FLEET, hours=hours)).endswith(said)


# -- the page ------------------------------------------------------------------------------------------------


def test_the_page_has_the_numbers_of_every_section() -> None:
    said = Page(render(FLEET)).said
    for fact in (
        "Partitions were available 99.903\N{EN DASH}99.917% of the watched time.",
        "3 topics with less offline time not drawn", "11-20 00:00:08.0", "10.0\N{EN DASH}15.0 s",
        "still offline at the last news", "at least 30.0 s", "grew 6 → 12 partitions",
    ):  # fmt: skip
        assert fact in said, fact


def test_an_empty_period_makes_a_page_too() -> None:
    said = Page(render(EMPTY)).said
    for fact in ("This cluster was not watched in the period.", "No hour was watched.", "Nothing changed"):
        assert fact in said


def test_an_outage_of_the_whole_cluster_names_no_partition() -> None:
    said = Page(render(evolve(FLEET, outages=(outage(CLOSED, "(whole cluster)", None),)))).said
    assert "(whole cluster) \N{EN DASH}" in said
    assert "None" not in said


def test_what_comes_from_topics_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    change = TopicChange(topic=evil, at=at(1), before=1, after=2, recreated=True)
    topic = RatedTopic(topic=evil, hours=(hour(),), **rated())
    outages = (outage(CLOSED, evil),)
    Page(render(evolve(FLEET, cluster=evil, outages=outages, changes=(change,), topics=(topic,))))


def test_the_picture_is_of_the_latest_hours() -> None:
    last = MAX_HOURS + 5
    topic = RatedTopic(topic="orders", hours=(hour(5), hour(6), hour(last)), **rated())
    drawn = heatmap(evolve(EMPTY, hours=(hour(0), hour(last)), topics=(topic,), topic_count=1))
    assert re.findall(r' x="(\d+)"', drawn) == ["0", str(MAX_HOURS - 1)]
    assert "orders, 2026-11-20 06:00" in drawn
    assert "2026-11-20 05:00" not in drawn


def test_marks_and_bars_lie_within_the_picture_and_are_well_formed() -> None:
    page = render(FLEET)
    places = [float(number) for number in re.findall(r"(?:left|width):(-?[\d.]+)%", page)]
    assert places
    assert all(0 <= place <= 100 for place in places)
    marks = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(marks) == page.count("<svg") > 0
    for svg in marks:
        ET.fromstring(svg)  # noqa: S314 - our own text


def test_long_lists_are_cut_and_say_so() -> None:
    many = tuple(outage(CLOSED, partition=n) for n in range(200))
    said = Page(render(evolve(FLEET, outages=many, outage_count=1_300))).said
    assert f"{wording.count(1_300 - MAX_LANES)} shorter outages not drawn." in said
    assert f"{wording.count(1_100)} shorter outages not listed." in said


@pytest.mark.parametrize("seconds", [1, 7, 59, 61, 1000, 86_399, 40 * 86_400, 800 * 86_400])
def test_the_axis_has_a_few_round_ticks_inside_the_picture(seconds: float) -> None:
    scale = Scale(at(0.3), at(0.3 + seconds))
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 8
    assert all(scale.start <= tick <= scale.end for tick in ticks)
