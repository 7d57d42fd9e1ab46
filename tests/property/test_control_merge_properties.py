"""Logs of change control, shuffled, doubled and replayed: the same in the end, for whoever reads them."""

from collections.abc import Callable
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.control.changes.evidence import evidence
from kafka_partition_events.control.protocol.codec import decode, encode
from kafka_partition_events.control.protocol.ledger import Appended, Ledger, latest
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import State
from tests.control_kit import Story, gated, grown, lease

STORY = grown(gated())
BASE = STORY.change
MOMENTS = st.sampled_from([1, 2, 3, STORY.now_ms, STORY.now_ms + 1])
BORN = st.none() | MOMENTS
NUMBERS = st.integers(0, 3)
NAMES = st.sampled_from("ab")
PROCESSES = st.sampled_from(["p", "q", "r"])

changes = st.builds(
    lambda epoch, revision, state, why: evolve(
        BASE, tracker_epoch=epoch, revision=revision, state=state, why=why
    ),
    NUMBERS,
    NUMBERS,
    st.sampled_from([State.GATED, State.CONVERGING]),
    st.sampled_from(["", "x"]),
)
leases = st.builds(
    lambda name, process, seq, born, at, seen, ttl_s: Appended(
        lease(name, seen, incarnation=process, lease_seq=seq, born_ms=born, ttl_s=ttl_s), at
    ),
    NAMES,
    PROCESSES,
    NUMBERS,
    BORN,
    MOMENTS,
    st.sampled_from([6, 12]),
    st.sampled_from([0.0, 90.0]),
)
of_one = leases.filter(lambda each: each.record.instance_id == "a")
logs = st.lists(changes | leases, max_size=12)


def read(log: list[Any]) -> Ledger:
    ledger = Ledger()
    for record in log:
        if isinstance(record, Change):
            ledger.take_change(record)
        else:
            ledger.take_lease(record.record, record.at_ms)
    return ledger


def is_a_semilattice(join: Callable[[Any, Any], Any], one: Any, other: Any, third: Any) -> None:
    assert join(one, one) == one
    assert join(one, other) == join(other, one)
    assert join(one, join(other, third)) == join(join(one, other), third)


@given(changes, changes, changes)
def test_changes_join_in_any_order(one: Change, other: Change, third: Change) -> None:
    is_a_semilattice(latest, one, other, third)


@given(of_one, of_one, of_one)
def test_leases_join_in_any_order(one: Appended, other: Appended, third: Appended) -> None:
    is_a_semilattice(latest, one, other, third)


@given(logs, st.data())
def test_a_log_that_is_shuffled_doubled_and_read_again_tells_the_same(
    log: list[Any], data: st.DataObject
) -> None:
    disorder = data.draw(st.permutations([*log, *data.draw(st.lists(st.sampled_from(log or [BASE])))]))
    wanted, found = read([BASE, *log]), read([BASE, *disorder, *log])
    assert found == wanted
    assert totals(found) == totals(wanted)


@given(logs)
def test_what_compaction_leaves_of_a_log_tells_the_same_of_who_holds_a_name(log: list[Any]) -> None:
    whole = read(log)
    assert read([*whole.changes.values(), *whole.leases.values()]) == whole


@given(logs)
def test_every_record_survives_its_encoding(log: list[Any]) -> None:
    for entry in log:
        record = entry if isinstance(entry, Change) else entry.record
        assert decode(type(record), encode(record)) == record


def totals(ledger: Ledger) -> object:
    story = Story(ledger=ledger, cluster=STORY.cluster, now_ms=STORY.now_ms)
    return evidence(story.change, story.ledger.leases, story.cluster, story.now_ms)
