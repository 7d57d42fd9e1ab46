"""The report's page and wording, without Spark."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.spark import wording
from kafka_partition_events.spark.model import (
    Absence,
    Account,
    Change,
    EventQuality,
    Outage,
    Phase,
    ReportData,
    Span,
    Stored,
    TopicTraffic,
    accounts_of,
    phase_seconds,
)
from kafka_partition_events.spark.report import render, verdict
from kafka_partition_events.spark.report_records import MAX_PARTITIONS, missing
from kafka_partition_events.spark.timeline import MAX_LANES, Scale

START = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def span(
    after: float | None, by: float, ended_after: float | None = None, ended_by: float | None = None
) -> Span:
    return Span(
        began_after=None if after is None else at(after),
        began_by=at(by),
        ended_after=None if ended_after is None else at(ended_after),
        ended_by=None if ended_by is None else at(ended_by),
        seen_until=at(60),
    )


def outage(partition: int, known: Span, topic: str = "orders", ended_with: str | None = None) -> Outage:
    return Outage(topic=topic, partition=partition, span=known, ended_with=ended_with)


CLOSED = span(8, 10, 20, 23)
EMPTY = ReportData(cluster="c-1", made_at=at(100), first=at(0), last=at(60))
FULL = evolve(
    EMPTY,
    outages=(outage(1, CLOSED, ended_with="partition.online"), outage(4, span(None, 30))),
    absences=(Absence(broker=2, span=CLOSED),),
    changes=(
        Change(name="partitions.added", after=at(30), by=at(31), topic="orders", partitions="6-11",
               detail="6 → 12 partitions"),
        Change(name="metadata.unavailable", after=None, by=at(40), detail="<timed out>", gap=True),
    ),
    traffic=(
        TopicTraffic(
            topic="orders",
            records={0: {Phase.BEFORE: 800, Phase.DURING: 2000}, 1: {Phase.BEFORE: 1234}},
            seconds={Phase.BEFORE: 8.0, Phase.DURING: 10.0, Phase.AFTER: 0.0},
            offline=frozenset({1}),
            added=frozenset({7}),
        ),
    ),
    accounts=(Account(client="app", topic="orders", sent=4040, acknowledged=4036, failed=3, rerouted=17),),
    stored={"orders": Stored(topic="orders", records=4036, labelled=4036, numbers=4034, rerouted=17)},
    quality=EventQuality(read=12, unparsed=1, unknown=2, distinct=6),
)  # fmt: skip


def text_of(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return re.sub(r"[ \n]+", " ", re.sub(r"<[^>]+>", " ", body))


# -- what is known about durations -----------------------------------------------------------------------


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
    assert wording.lasted(known) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (119.9, "119.9 s"), (120, "2 min 00 s"), (7199.7, "2 h 00 min"), (9000, "2 h 30 min")],
)
def test_durations(seconds: float, said: str) -> None:
    assert wording.duration(seconds) == said


def test_times_are_utc_whatever_their_zone() -> None:
    local = at(0.25).astimezone(datetime.now().astimezone().tzinfo)
    assert wording.clock(local) == "10:00:00.2"


# -- phases ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([], (60, 0, 0)),
        ([(at(10), at(20))], (10, 10, 40)),
        ([(at(10), at(20)), (at(30), at(40))], (10, 20, 30)),
        ([(at(10), None)], (10, 50, 0)),
        ([(at(-20), at(-10))], (0, 0, 60)),
        ([(at(100), at(110))], (60, 0, 0)),
        ([(at(-20), at(30))], (0, 30, 30)),
    ],
)
def test_the_phases_of_a_topic_add_up(windows: Any, expected: tuple[float, ...]) -> None:
    found = phase_seconds(at(0), at(60), windows)
    assert tuple(found[phase] for phase in Phase) == expected


# -- accounts --------------------------------------------------------------------------------------------


def test_what_was_acknowledged_and_is_not_there_is_missing_topic_by_topic() -> None:
    accounts = accounts_of(
        {"a": {"x": {"acknowledged": 60}, "y": {"acknowledged": 5}}, "b": {"x": {"acknowledged": 50}}}
    )
    stored = {
        "x": Stored(topic="x", records=100, labelled=100, numbers=99),
        "y": Stored(topic="y", records=9, labelled=9, numbers=9),
    }
    assert missing(accounts, stored) == {"x": 11}


def test_records_without_a_number_prove_no_loss() -> None:
    accounts = accounts_of({"a": {"x": {"acknowledged": 60}}})
    assert missing(accounts, {"x": Stored(topic="x", records=10, labelled=9, numbers=9)}) == {}


def test_unknown_counters_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"a, x: \['acked'\]"):
        accounts_of({"a": {"x": {"acked": 1}}})


# -- the page --------------------------------------------------------------------------------------------


def test_the_verdict_counts_partitions_and_tells_losses() -> None:
    assert verdict(EMPTY) == "No partition went offline."
    assert verdict(FULL) == (
        "2 partitions went offline, and 1 did not come back. 2 acknowledged records cannot be found."
    )
    replaced = Change(name="topic.recreated", after=at(1), by=at(2), topic="orders")
    assert verdict(evolve(FULL, changes=(replaced,))).endswith(
        "2 acknowledged records went with a topic that was deleted."
    )


def test_the_page_has_the_numbers_of_every_section() -> None:
    said = text_of(render(FULL))
    for fact in (
        "10.0\N{EN DASH}15.0 s", "at least 30.0 s", "still offline at the last event", "came back",
        "grew 6 → 12 partitions", "100 /s", "200 /s", "154 /s", "4\u202f036", "2 acknowledged but missing",
        "1 sent and never reported on", "metadata unavailable: &lt;timed out&gt;",
        "6 different events, 3 doubles", "2 of a type or version unknown here, 1 that could not be parsed",
    ):  # fmt: skip
        assert fact in said, fact


def test_an_empty_report_is_a_page_too() -> None:
    said = text_of(render(EMPTY))
    assert "Nothing changed" in said
    assert "Records per partition" not in said


def test_the_page_asks_for_nothing_from_anywhere() -> None:
    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in {"script", "link", "img", "iframe", "object", "base", "form"}
            assert not {"src", "href", "srcset", "action"} & {name for name, _ in attrs}

    page = render(FULL)
    Links().feed(page)
    assert "url(" not in page
    assert "@import" not in page


def test_what_comes_from_topics_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    page = render(
        evolve(
            FULL,
            cluster=evil,
            note=evil,
            outages=(outage(1, CLOSED, topic=evil, ended_with=evil),),
            changes=(Change(name="partitions.added", after=None, by=at(1), topic=evil, detail=evil),),
            traffic=(evolve(FULL.traffic[0], topic=evil),),
            accounts=(Account(client=evil, topic=evil),),
        )
    )
    assert "<script" not in page


def test_marks_and_bars_lie_within_the_picture() -> None:
    page = render(FULL)
    places = [float(number) for number in re.findall(r"(?:left|width):(-?[\d.]+)%", page)]
    assert places
    assert all(0 <= place <= 100 for place in places)


def test_svg_marks_are_well_formed() -> None:
    page = render(FULL)
    marks = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(marks) == page.count("<svg") > 0
    for svg in marks:
        ET.fromstring(svg)  # noqa: S314 - our own text


def test_long_lists_are_cut_and_say_so() -> None:
    many = tuple(outage(n, span(8, 10, 20 + n / 100, 23 + n / 100)) for n in range(300))
    crowd = evolve(FULL.traffic[0], records={n: {Phase.BEFORE: 1} for n in range(100)})
    said = text_of(render(evolve(FULL, outages=many, traffic=(crowd,))))
    assert f"{300 - MAX_LANES} shorter outages not drawn." in said
    assert "The first 200 of 300." in said
    assert f"{100 - MAX_PARTITIONS} other partitions not listed." in said


@pytest.mark.parametrize("seconds", [1, 7, 59, 61, 1000, 86_399, 40 * 86_400, 800 * 86_400])
def test_the_axis_has_a_few_round_ticks_inside_the_picture(seconds: float) -> None:
    scale = Scale(at(0.3), at(0.3 + seconds))
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 8
    assert all(scale.start <= tick <= scale.end for tick in ticks)
