"""A change says what its totals were counted from, so that an auditor can count the same."""

from attrs import evolve

from kafka_partition_events.control.changes.evidence import evidence
from kafka_partition_events.control.changes.transitions import step
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import State, Status
from tests.control_kit import Story, grown, growth


def counted_by(story: Story, leases: tuple[int, ...], acks: tuple[int, ...], now_ms: int) -> Change:
    """Return what a tracker makes of the story that has read its topics up to these offsets."""
    fleet = evolve(story.fleet, leases_read=leases, acks_read=acks)
    return step(story.change, fleet, story.cluster, epoch=1, now_ms=now_ms)


def test_new_totals_come_with_what_they_were_counted_from() -> None:
    story = grown(growth())
    story.says("a", Status.APPLIED)
    counted = counted_by(story, (4, 1), (2, 0), story.now_ms + 7).counted
    assert counted is not None
    assert (counted.leases, counted.acks, counted.writers) == ((4, 1), (2, 0), story.cluster.writers)
    assert (counted.at_ms, counted.state) == (story.now_ms + 7, State.CONVERGING)


def test_that_the_same_was_counted_from_more_is_no_news() -> None:
    story = grown(growth())
    story.says("a", Status.APPLIED)
    story.ledger.take_change(counted_by(story, (4,), (2,), story.now_ms))
    assert counted_by(story, (40,), (2,), story.now_ms + 5) is story.change


def test_a_transition_is_counted_in_the_state_that_it_leaves() -> None:
    story = grown(growth(required_groups=()))
    story.says("ab", Status.APPLIED)
    after = counted_by(story, (4,), (2,), story.now_ms)
    assert after.counted is not None
    assert (after.state, after.counted.state) == (State.CONVERGED, State.CONVERGING)
    assert evidence(story.change, story.fleet, story.cluster, story.now_ms).totals == after.totals


def test_nobody_says_what_was_counted_who_does_not_know_how_far_it_has_read() -> None:
    story = grown(growth())
    story.says("a", Status.APPLIED)
    assert story.next().counted is None
