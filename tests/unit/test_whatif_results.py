"""What scenarios come to, and how it is told."""

import json
from datetime import UTC, datetime

import pytest
from attrs import evolve

from kafka_partition_events.cli.spark.whatif import percent, verdict
from kafka_partition_events.spark.whatif.plan import Scenario
from kafka_partition_events.spark.whatif.results import HotKey, Outcome, WhatIf, skew, spread, to_json

ASKED = Scenario(current=2, partitions=3)
GROWN = Outcome(scenario=ASKED, before=(60, 30), after=(40, 20, 30), moved=40, keyed=90, unkeyed=0)
KEPT = evolve(GROWN, scenario=evolve(ASKED, mapping="kept"), after=(60, 30, 0), moved=0)
ANSWER = WhatIf(
    source="topic orders",
    outcomes=(GROWN, KEPT),
    hottest=(HotKey(key="a", records=40, share=0.44, before=(0, 1), after=(2, 1)),),
    made_at=datetime(2026, 11, 21, 18, 0, tzinfo=UTC),
)


def test_an_outcome_has_what_moves_and_the_skew() -> None:
    assert GROWN.moved_share == pytest.approx(40 / 90)
    assert GROWN.skew_before == pytest.approx(60 / 45)
    assert GROWN.skew_after == pytest.approx(40 / 30)
    assert GROWN.busiest == 0


def test_records_without_a_key_take_turns() -> None:
    assert spread(8, (1, 0, 0)) == (4, 3, 2)


@pytest.mark.parametrize(("loads", "factor"), [([1, 1], 1.0), ([3, 1], 1.5), ([0, 0], 1.0), ([5, 0, 0], 3.0)])
def test_skew_is_how_many_times_the_mean_the_largest_is(loads: list[int], factor: float) -> None:
    assert skew(loads) == factor


def test_it_is_told_as_json() -> None:
    document = json.loads(json.dumps(to_json(ANSWER)))
    assert (document["format"], document["version"], document["partitions"]) == ("kpe.whatif", 3, 2)
    assert document["made_at"] == "2026-11-21T18:00:00Z"
    grown, _ = document["scenarios"]
    assert (grown["name"], grown["mapping"]) == ("modulo_3", "modulo")
    assert (grown["moved"], grown["after"]) == (40, [40, 20, 30])
    modulo, kept = {"before": 0, "after": 2}, {"before": 1, "after": 1}
    assert document["hottest"][0]["partitions"] == {"modulo_3": modulo, "kept_3": kept}


def test_it_is_told_in_a_sentence() -> None:
    grown = "3 partitions by modulo would move 44.4% of the keyed records"
    assert verdict(ANSWER) == f"{grown}, 3 partitions by kept keys none."
    assert verdict(evolve(ANSWER, outcomes=(GROWN,))) == f"{grown}."
    nothing = evolve(GROWN, keyed=0, moved=0)
    assert verdict(evolve(ANSWER, outcomes=(nothing,))) == "No record has a key, so no growth would move any."


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0"), (0.0004, "< 0.1%"), (0.077, "7.7%"), (0.9995, "> 99.9%"), (1, "100.0%")]
)
def test_percent(share: float, words: str) -> None:
    assert percent(share) == words
