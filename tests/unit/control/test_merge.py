"""Who wins when several records bear one key."""

from attrs import evolve

from kafka_partition_events.control.protocol.ledger import Appended, Ledger, latest
from kafka_partition_events.control.protocol.vocabulary import Status, Verb
from tests.control_kit import ONE, Story, ack, growth, lease


def a_ledger_with(*leases: tuple[str, int, int | None, int]) -> Ledger:
    """Take leases: (incarnation, lease_seq, born_ms, at_ms)."""
    ledger = Ledger()
    for incarnation, lease_seq, born_ms, at_ms in leases:
        ledger.take_lease(lease("a", incarnation=incarnation, lease_seq=lease_seq, born_ms=born_ms), at_ms)
    return ledger


def holder(ledger: Ledger) -> str:
    return ledger.leases["a"].record.incarnation


class TestChanges:
    def test_a_later_tracker_wins_over_any_revision_of_an_earlier_one(self) -> None:
        story = Story()
        story.request(growth())
        earlier, later = evolve(story.change, revision=99), evolve(story.change, tracker_epoch=2)
        assert latest(earlier, later) is latest(later, earlier) is later

    def test_after_a_tombstone_nothing_comes_back(self) -> None:
        story = Story()
        story.request(growth())
        change = story.change
        story.ledger.take_tombstone(ONE)
        story.ledger.take_change(change)
        story.ledger.take_ack(ack("a", Status.APPLIED), 1)
        assert not story.ledger.changes
        assert not story.ledger.acks

    def test_answers_to_what_is_finished_may_be_forgotten(self) -> None:
        story = Story()
        story.request(growth())
        story.says("a", Status.OBSERVED)
        story.ledger.drop_acks()
        assert story.fleet.acks
        story.command(Verb.CANCEL)
        story.ledger.drop_acks()
        assert not story.fleet.acks


class TestLeases:
    def test_names_of_processes_that_were_born_in_one_millisecond_decide(self) -> None:
        for order in (("p", "q"), ("q", "p")):
            assert holder(a_ledger_with(*((name, 1, None, 100) for name in order))) == "q"

    def test_a_record_that_was_appended_twice_counts_from_its_second_time(self) -> None:
        ledger = a_ledger_with(("p", 2, 100, 250), ("p", 2, 100, 200))
        assert ledger.leases["a"].at_ms == 250


class TestAcks:
    def test_the_last_one_of_a_process_wins_and_a_later_process_wins_over_all(self) -> None:
        first = Appended(ack("a", Status.OBSERVED, ack_seq=1, born_ms=100), 300)
        second = Appended(ack("a", Status.APPLIED, ack_seq=2, born_ms=100), 200)
        reborn = Appended(ack("a", Status.HELD, ack_seq=1, incarnation="a-2", born_ms=150), 250)
        assert latest(first, second) is latest(second, first) is second
        assert latest(second, reborn) is latest(reborn, second) is reborn
