"""The failure table (research: ops.md 4.9), as far as it is about what is known and not about connections."""

import pytest
from attrs import evolve

from kafka_partition_events.control.agents.leases import ACK_SPREAD_S, ack_delay
from kafka_partition_events.control.protocol.clock import BrokerClock
from kafka_partition_events.control.protocol.vocabulary import State, Status
from tests.control_kit import START_MS, Story, ack, gated, grown, growth, lease


def test_observer_blind_nothing_becomes_observed_and_the_clock_goes_on_marked_blind() -> None:
    story = Story()
    story.lives("a")
    story.request(growth(required_groups=()))
    story.sees(blind=True, count=12)
    assert story.tick() is State.REQUESTED

    seen = grown(growth(required_groups=()))
    seen.sees(blind=True)
    assert seen.tick(500) is State.CONVERGING
    seen.lives("ab")
    assert seen.tick(100) is State.OVERDUE
    assert "the cluster can't be seen" in seen.change.unverified


def test_two_trackers_what_the_former_one_writes_late_is_not_heeded() -> None:
    story = grown(growth(required_groups=()))
    taken_over = evolve(story.change, tracker_epoch=story.ledger.next_epoch(), revision=1)
    late = evolve(story.change, revision=1_000, state=State.CONVERGED)
    for change in (taken_over, late):
        story.ledger.take_change(change)
    assert story.change is taken_over


@pytest.mark.parametrize("skew_s", [-3600.0, 0.0, 3600.0])
def test_clock_skew_of_an_hour_has_no_effect(skew_s: float) -> None:
    clock = BrokerClock().heard(START_MS, now=5_000.0 + skew_s)
    assert clock.now_ms(5_010.0 + skew_s) == START_MS + 10_000


def test_duplicate_and_reordered_acks_give_the_same_totals() -> None:
    story = grown(growth(required_groups=()))
    acks = [ack("a", Status.OBSERVED, ack_seq=1), ack("a", Status.APPLIED, ack_seq=2)]
    for answer in (*acks, *reversed(acks), acks[0]):
        story.ledger.take_ack(answer, story.now_ms)
    story.tick()
    assert (story.change.totals.applied, story.change.totals.pending) == (1, 1)


def test_topic_created_anew_in_the_middle_the_change_is_rejected() -> None:
    story = grown(gated())
    story.sees(topic_id="another", count=12)
    assert story.tick() is State.REJECTED


def test_growth_to_another_number_is_a_conflict() -> None:
    story = Story()
    story.request(gated())
    story.sees(count=8)
    assert story.tick() is State.REJECTED


class TestHalfOfTheFleetKilled:
    def test_who_is_lost_is_waited_for_during_a_grace(self) -> None:
        story = grown(growth(required_groups=()), "ab")
        story.tick(150)
        story.lives("a", seen=12)
        assert story.tick(29.999) is State.CONVERGING
        assert story.change.totals.pending == 1
        assert story.tick(0.001) is State.CONVERGED

    def test_a_few_come_and_go_all_the_time(self) -> None:
        fleet = [f"i{n}" for n in range(40)]
        story = Story()
        story.lives(fleet)
        story.request(growth(required_groups=()))
        story.sees(count=12)
        story.tick()
        story.lives(fleet[:38], seen=12)
        story.lives(fleet[38:], ttl_s=0.0)
        assert story.tick() is State.CONVERGED


def test_a_storm_of_acks_is_spread_over_five_seconds() -> None:
    delays = [ack_delay("chg-1", f"instance-{n}") for n in range(10_000)]
    assert all(0 <= delay < ACK_SPREAD_S for delay in delays)
    per_second = [sum(second <= delay < second + 1 for delay in delays) for second in range(5)]
    assert max(per_second) < 2_200
    assert delays[7] == ack_delay("chg-1", "instance-7")


class TestRestartsAndLateComers:
    def test_who_restarts_under_its_name_must_answer_again(self) -> None:
        story = grown(growth(required_groups=()), "ab")
        story.says("a", Status.APPLIED)
        story.now_ms += 1
        story.ledger.take_lease(lease("a", incarnation="a-2", lease_seq=1), story.now_ms)
        story.tick()
        assert story.change.totals.pending == 2
        story.ledger.take_lease(lease("a", seen=12, incarnation="a-2", lease_seq=2), story.now_ms)
        story.tick()
        assert (story.change.totals.applied, story.change.totals.pending) == (1, 1)


def test_even_if_every_ack_is_lost_leases_tell() -> None:
    story = grown(growth(required_groups=()))
    story.lives("ab", seen=12)
    assert story.tick() is State.CONVERGED
    assert not story.fleet.acks
