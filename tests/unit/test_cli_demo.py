from kafka_partition_events.demo.ledger import (
    Found,
    Mark,
    Payload,
    TopicLedger,
    Totals,
    reconcile,
)
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.table import compile_table
from kafka_partition_events.testing.scripted import cluster_of


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
    assert account.remarks() == []


def test_a_lost_record_is_told() -> None:
    account = reconcile("t", "p", _ledger("aaa"), _found(0, 2), recreated=False)
    assert not account.agrees
    assert account.remarks() == ["t: 1 record acknowledged and NOT IN THE TOPIC"]


def test_a_deleted_topic_takes_its_records_with_it() -> None:
    account = reconcile("t", "p", _ledger("aaa"), _found(2), recreated=True)
    assert account.agrees
    assert account.remarks() == ["t: 2 records acknowledged and gone with the deleted topic"]


def test_doubles_and_records_given_up_too_early_are_told() -> None:
    account = reconcile("t", "p", _ledger("afa"), _found(0, 1, 1, 2), recreated=False)
    assert account.agrees
    assert (account.doubles, account.stored_though_failed) == (1, 1)
    assert len(account.remarks()) == 2


def test_a_record_without_an_answer_is_no_agreement() -> None:
    account = reconcile("t", "p", _ledger("ap"), _found(0), recreated=False)
    assert not account.agrees
    assert account.remarks() == ["t: 1 record neither acknowledged nor failed"]
