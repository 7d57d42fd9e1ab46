from datetime import UTC, date, datetime, timedelta

import pytest
from attrs import evolve

from kafka_partition_events.demo.ledger import (
    Found,
    Mark,
    Payload,
    TopicLedger,
    Totals,
    reconcile,
)
from kafka_partition_events.demo.records import (
    Window,
    by_phase,
    lengths,
    records_section,
    traffic_section,
    verdict,
    window_of,
)
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.table import compile_table
from kafka_partition_events.spark.report.model import FleetData, Outage, Span
from kafka_partition_events.spark.tables.days import Days
from kafka_partition_events.testing.scripted import cluster_of

START = datetime(2026, 11, 20, 10, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def outage(topic: str, begin: tuple[float, float], end: tuple[float, float] | None) -> Outage:
    after, by = (None, None) if end is None else map(at, end)
    return Outage(
        topic=topic,
        partition=1,
        span=Span(
            began_after=at(begin[0]), began_by=at(begin[1]), ended_after=after, ended_by=by, seen_until=at(60)
        ),
    )


def _ledger(outcomes: str, mark: Mark = Mark.NONE) -> TopicLedger:
    """Return a ledger of one record for each letter: acknowledged, failed or pending."""
    ledger = TopicLedger()
    for outcome in outcomes:
        number = ledger.send(mark)
        if outcome == "a":
            ledger.acknowledged(number)
        elif outcome == "f":
            ledger.failed(number, "timed out")
    return ledger


def _found(*numbers: int, mark: Mark = Mark.NONE) -> Found:
    return Found.of(Payload("p", number, mark) for number in numbers)


def test_a_payload_survives_the_topic() -> None:
    for mark in (Mark.NONE, Mark.KEYED, Mark.REROUTED | Mark.CAPPED):
        payload = Payload("p", 7, mark)
        assert Payload.decode(payload.encode()) == payload


def test_marks_follow_the_route() -> None:
    budget = BufferBudget(max_partitions={"orders": 2}, instance_id="x")
    table = compile_table(cluster_of({"orders": [1, 2, 3], "calm": [1]}), budget)
    assert Mark.of(table.routes["orders"], keyed=False) == Mark.CAPPED
    assert Mark.of(table.routes["orders"], keyed=True) == Mark.KEYED
    assert Mark.of(table.routes["calm"], keyed=False) == Mark.NONE
    assert Mark.of(None, keyed=False) == Mark.NONE
    table = compile_table(cluster_of({"orders": [1, None, 3]}, brokers=[1, 3]))
    assert Mark.of(table.routes["orders"], keyed=False) == Mark.REROUTED


def test_a_ledger_counts_what_the_producer_was_told() -> None:
    ledger = _ledger("aafp", Mark.REROUTED | Mark.CAPPED)
    assert ledger.totals == Totals(sent=4, acknowledged=2, failed=1, rerouted=2, capped=2)
    assert dict(ledger.causes) == {"timed out": 1}


def test_a_topic_is_counted_without_its_producer() -> None:
    assert _found(0, 1, 3, 3, mark=Mark.CAPPED).totals == Totals(
        sent=4, acknowledged=3, failed=1, rerouted=0, capped=3
    )
    assert _found().totals == Totals()


def test_both_counts_agree() -> None:
    account = reconcile("t", "p", _ledger("aafa"), _found(0, 1, 3), recreated=False)
    assert account.agrees
    assert account.told == account.found
    assert account.differences() == []


def test_a_lost_record_is_told() -> None:
    account = reconcile("t", "p", _ledger("aaa"), _found(0, 2), recreated=False)
    assert not account.agrees
    assert account.differences() == ["1 record acknowledged and NOT IN THE TOPIC"]


def test_a_deleted_topic_takes_its_records_with_it() -> None:
    account = reconcile("t", "p", _ledger("aaa"), _found(2), recreated=True)
    assert account.agrees
    assert account.differences() == ["2 records acknowledged and gone with the deleted topic"]


def test_doubles_and_records_given_up_too_early_are_told() -> None:
    account = reconcile("t", "p", _ledger("afa"), _found(0, 1, 1, 2), recreated=False)
    assert account.agrees
    assert (account.doubles, account.stored_though_failed) == (1, 1)
    assert len(account.differences()) == 2


def test_a_record_without_an_answer_is_no_agreement() -> None:
    account = reconcile("t", "p", _ledger("ap"), _found(0), recreated=False)
    assert not account.agrees
    assert account.differences() == ["1 record neither acknowledged nor failed"]


# -- the report's own sections ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "seconds", "counts"),
    [
        (None, (60, 0, 0), (4, 0, 0)),
        ((at(10), at(20)), (10, 10, 40), (2, 1, 1)),
        ((at(-20), at(-10)), (0, 0, 60), (0, 0, 4)),
        ((at(-20), at(30)), (0, 30, 30), (0, 3, 1)),
        ((at(100), at(110)), (60, 0, 0), (4, 0, 0)),
    ],
)
def test_phases_add_up(window: Window | None, seconds: tuple[float, ...], counts: tuple[int, ...]) -> None:
    assert lengths(at(0), at(60), window) == seconds
    assert by_phase([at(0), at(10), at(20), at(60)], window) == counts


def test_a_topic_is_measured_by_its_own_outages_or_by_those_of_the_others() -> None:
    outages = [outage("a", (8, 10), (20, 23)), outage("a", (9, 12), (21, 25)), outage("b", (30, 31), None)]
    assert window_of("a", outages) == (at(8), at(25))
    assert window_of("b", outages) == (at(30), at(60))
    assert window_of("c", outages) == (at(8), at(60))
    assert window_of("c", []) is None


def test_the_page_says_where_records_went_and_what_became_of_them() -> None:
    arrivals = {"orders": {0: [at(second) for second in range(41)], 6: [], 1: [at(0)]}}
    traffic = traffic_section(arrivals, [outage("orders", (10, 10), (20, 20))])
    for said in (
        "Before <small>10.0 s",
        "<b>1.1</b> /s <small>11</small>",
        "<td>12 records",
        ">new<",
        ">offline<",
    ):
        assert said in traffic
    account = reconcile("<t>", "p", _ledger("aaf"), _found(0, 2, 2), recreated=False)
    for said in (
        "&lt;t&gt;",
        "1 record acknowledged and NOT IN THE TOPIC<br>1 record given up",
        'class="bad"',
    ):
        assert said in records_section([account])


def test_the_verdict_tells_losses_but_for_those_that_were_meant() -> None:
    day = Days(date(2026, 11, 20), date(2026, 11, 20))
    calm = FleetData(cluster="c", made_at=START, days=day, until=at(60), target=0.999)
    fine = reconcile("t", "p", _ledger("aa"), _found(0, 1), recreated=False)
    again = reconcile("t", "p", _ledger("aaa"), _found(2), recreated=True)
    lost = reconcile("t", "p", _ledger("aap"), _found(0), recreated=False)
    assert verdict(calm, [fine]) == "No partition went offline. Every acknowledged record is in its topic."
    down = evolve(calm, outages=(outage("a", (8, 10), (20, 23)), outage("b", (8, 10), None)), open_count=1)
    assert verdict(down, [fine, again]) == (
        "2 partitions went offline, and 1 did not come back. Every acknowledged record is in its topic, "
        "apart from 2 in the one that was deleted."
    )
    assert verdict(evolve(down, open_count=0), [again, lost]) == (
        "2 partitions went offline and came back. 1 acknowledged record cannot be found. "
        "1 record got no answer."
    )
