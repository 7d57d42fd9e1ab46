"""Who wins when several records bear one key."""

from attrs import evolve

from kafka_partition_events.control.protocol.ledger import Ledger, latest
from tests.control_kit import Story, growth, lease


def test_a_later_tracker_wins_over_any_revision_of_an_earlier_one() -> None:
    story = Story()
    story.request(growth())
    earlier, later = evolve(story.change, revision=99), evolve(story.change, tracker_epoch=2)
    assert latest(earlier, later) is latest(later, earlier) is later


def test_a_process_that_lingers_on_never_wins_over_its_successor() -> None:
    ledger = Ledger()
    for process, seq, born_ms, at_ms in (("old", 1, None, 100), ("new", 1, None, 200), ("old", 2, 100, 300)):
        ledger.take_lease(lease("a", incarnation=process, lease_seq=seq, born_ms=born_ms), at_ms)
    assert ledger.leases["a"].record.incarnation == "new"
