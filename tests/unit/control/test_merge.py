"""Who wins when several records bear one key."""

from attrs import evolve

from kafka_partition_events.control.protocol.ledger import latest
from kafka_partition_events.control.protocol.vocabulary import Status, Verb
from tests.control_kit import ONE, Story, ack, growth


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
