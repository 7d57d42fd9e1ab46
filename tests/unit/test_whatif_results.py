"""What scenarios come to, worked out by hand; and how it is told."""

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from attrs import evolve

from kafka_partition_events.spark.whatif.page import MOST_BARS, render
from kafka_partition_events.spark.whatif.plan import Scenario
from kafka_partition_events.spark.whatif.results import (
    Counted,
    Fate,
    HotKey,
    Load,
    Outcome,
    Side,
    WhatIf,
    outcomes,
    skew,
    to_json,
)
from kafka_partition_events.spark.whatif.wording import label, percent, size, times, verdict


def counted(
    side: Side, partition: int | None, records: int, fate: Fate = Fate.HOME, *, moved: bool = False
) -> Counted:
    load = Load(records, 10 * records)
    return Counted(scenario=0, side=side, partition=partition, moved=moved, fate=fate, load=load)


def outcome(scenario: Scenario, *rows: Counted) -> Outcome:
    (found,) = outcomes([scenario], rows)
    return found


GROWN = outcome(
    Scenario(current=2, partitions=3),
    counted(Side.BEFORE, 0, 60),
    counted(Side.BEFORE, 1, 30),
    counted(Side.AFTER, 0, 30),
    counted(Side.AFTER, 0, 10, moved=True),
    counted(Side.AFTER, 1, 20),
    counted(Side.AFTER, 2, 30, moved=True),
)


def records(loads: tuple[Load, ...]) -> list[int]:
    return [load.records for load in loads]


class TestAnOutcome:
    def test_has_what_moved_and_the_load_of_each_partition(self) -> None:
        assert GROWN.moved == Load(40, 400)
        assert (records(GROWN.before), records(GROWN.after)) == ([60, 30], [40, 20, 30])
        assert GROWN.moved_share == GROWN.moved_bytes_share == pytest.approx(40 / 90)
        assert GROWN.skew_before == pytest.approx(60 / 45)
        assert GROWN.skew_after == pytest.approx(40 / 30)
        assert GROWN.busiest == 0

    def test_spreads_records_without_a_key_over_what_is_usable(self) -> None:
        scenario = Scenario(current=2, partitions=4, offline=frozenset({1}))
        found = outcome(
            scenario,
            counted(Side.BEFORE, None, 8),
            counted(Side.AFTER, None, 8, Fate.UNKEYED),
            counted(Side.AFTER, 0, 1),
        )
        assert (records(found.before), records(found.after)) == ([4, 4], [4, 0, 3, 2])
        assert (found.keyed.records, found.unkeyed.records) == (1, 8)
        assert (found.rerouted, found.held, found.capped) == (Load(2, 20), Load(), Load())

    def test_tells_which_records_a_cap_keeps_off_partitions(self) -> None:
        scenario = Scenario(current=4, partitions=4, cap=2)
        found = outcome(scenario, counted(Side.AFTER, None, 100, Fate.UNKEYED))
        assert found.capped == Load(50, 500)
        assert sorted(records(found.after)) == [0, 0, 50, 50]

    def test_says_which_keyed_records_wait(self) -> None:
        scenario = Scenario(current=4, partitions=4, offline=frozenset({1}))
        found = outcome(
            scenario,
            counted(Side.AFTER, 1, 5, Fate.HELD),
            counted(Side.AFTER, 2, 7),
        )
        assert (found.held.records, found.rerouted.records) == (5, 0)
        assert found.keyed.records == 12
        assert records(found.after) == [0, 5, 7, 0]

    def test_where_nothing_is_online_all_that_has_no_key_waits(self) -> None:
        scenario = Scenario(current=2, partitions=2, offline=frozenset({0, 1}))
        found = outcome(scenario, counted(Side.AFTER, None, 10, Fate.UNKEYED))
        assert (found.held.records, found.rerouted.records) == (10, 0)
        assert records(found.after) == [5, 5]


@pytest.mark.parametrize(("loads", "factor"), [([1, 1], 1.0), ([3, 1], 1.5), ([0, 0], 1.0), ([5, 0, 0], 3.0)])
def test_skew_is_how_many_times_the_mean_the_largest_is(loads: list[int], factor: float) -> None:
    assert skew(loads) == factor


# -- how it is told ------------------------------------------------------------------------------------


OFFLINE = outcome(
    Scenario(current=2, partitions=3, mapping="kept", offline=frozenset({1}), cap=2),
    counted(Side.BEFORE, 0, 60),
    counted(Side.AFTER, 0, 60),
    counted(Side.AFTER, 1, 30, Fate.HELD),
)
ANSWER = WhatIf(
    source="topic <orders>",
    outcomes=(GROWN, OFFLINE),
    hottest=(HotKey(key="<b>", load=Load(40, 400), share=0.44, before=(0, 1), after=(2, 1)),),
    made_at=datetime(2026, 11, 21, 18, 0, tzinfo=UTC),
)


class Page(HTMLParser):
    """Notes what a page is made of."""

    VOID = frozenset({"meta", "br"})
    OPTIONAL_END = frozenset({"tr", "td", "th", "thead", "tbody"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name in {"src", "href"} for name, _ in attrs)
        if tag not in self.VOID | self.OPTIONAL_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.OPTIONAL_END:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


class TestThePage:
    def test_is_one_file_without_a_script_that_asks_nobody(self) -> None:
        page = Page(html := render(ANSWER))
        assert page.open == []
        assert "script" not in page.tags
        assert "url(" not in html
        assert "@import" not in html

    def test_escapes_what_is_not_its_own(self) -> None:
        page = Page(render(ANSWER))
        assert "<b>" in page.text
        assert "topic <orders>" in page.text
        assert "orders" not in page.tags

    def test_has_a_bar_for_each_partition_now_and_then(self) -> None:
        html = render(evolve(ANSWER, outcomes=(GROWN,), hottest=()))
        heights = re.findall(r'<i[^>]*style="height:([\d.]+)%"', html)
        assert heights == ["100.00", "50.00", "66.67", "33.33", "50.00"]
        assert html.count('<i class="none">') == 1  # the third partition is not there now
        assert html.count('<i class="new"') == 1
        assert "Hottest keys" not in html

    def test_has_neighbours_share_a_bar_where_there_are_many(self) -> None:
        many = Scenario(current=2, partitions=MOST_BARS * 2)
        found = outcome(many, counted(Side.BEFORE, 0, 5), counted(Side.AFTER, 300, 5, moved=True))
        html = render(evolve(ANSWER, outcomes=(found,), hottest=()))
        assert html.count("<i") == 2 * MOST_BARS
        assert "the busiest of 300 to 301: 5 records" in html
        assert "<details>" not in html

    def test_shows_partitions_that_are_offline_and_columns_that_matter(self) -> None:
        html = render(ANSWER)
        assert '<i class="off"' in html
        assert "Held" in html
        assert "Refused" not in html
        assert "Bytes" in html
        assert "Bytes" not in render(evolve(ANSWER, has_bytes=False))


def test_it_is_told_as_json() -> None:
    document = json.loads(json.dumps(to_json(ANSWER)))
    assert (document["format"], document["version"], document["partitions"]) == ("kpe.whatif", 1, 2)
    assert document["made_at"] == "2026-11-21T18:00:00Z"
    grown, offline = document["scenarios"]
    assert (grown["name"], grown["mapping"], grown["placed_by"]) == ("modulo_3", "modulo", "modulo")
    assert grown["moved"] == {"records": 40, "bytes": 400}
    assert [load["records"] for load in grown["after"]] == [40, 20, 30]
    assert (offline["offline"], offline["cap"], offline["held"]["records"]) == ([1], 2, 30)
    assert document["hottest"][0]["partitions"] == {
        "modulo_3": {"before": 0, "after": 2},
        "kept_3_offline_1_cap_2": {"before": 1, "after": 1},
    }


def test_it_is_told_in_words() -> None:
    assert label(OFFLINE.scenario) == "3 partitions, kept keys, 1 offline, cap 2"
    assert verdict(ANSWER) == (
        "3 partitions by modulo would move 44.4% of the keyed records, 3 partitions by kept keys none."
    )
    assert verdict(evolve(ANSWER, outcomes=(GROWN,), distinct=True)) == (
        "3 partitions by modulo would move 44.4% of the keys."
    )
    nothing = outcome(Scenario(current=1, partitions=2))
    assert verdict(evolve(ANSWER, outcomes=(nothing,))).startswith("No record has a key")


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0"), (1, "100.0%"), (0.9231, "92.3%"), (0.00001, "< 0.1%"), (0.99999, "> 99.9%")],
)
def test_percent(share: float, words: str) -> None:
    assert percent(share) == words


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (5 * 2**40, "5.0 TiB")]
)
def test_size(number: int, words: str) -> None:
    assert size(number) == words


def test_times() -> None:
    assert [times(factor) for factor in (1.0, 1.237, 250.4)] == ["1.00x", "1.24x", "250x"]
