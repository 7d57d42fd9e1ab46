"""The failure table (research: ops.md 4.9), as far as it is about what is known and not about connections."""

import pytest
from attrs import evolve

from kafka_partition_events.control.agents.leases import ACK_SPREAD_S, ack_delay
from kafka_partition_events.control.agents.producer_duties import Watch, order_for
from kafka_partition_events.control.changes.evidence import MASS_EXIT
from kafka_partition_events.control.changes.followers import followers
from kafka_partition_events.control.protocol.clock import BrokerClock
from kafka_partition_events.control.protocol.records import Capacity, Order
from kafka_partition_events.control.protocol.vocabulary import LeaseState, Reason, State, Status
from tests.control_kit import NEW, START_MS, Story, ack, gated, grown, growth, lease


def test_control_topics_out_of_reach_the_gate_opens_by_the_instances_own_clock_and_no_sooner() -> None:
    change = grown(gated(deadline_s=60)).change
    watch = Watch().looked(change, seen=12, now=1_000.0)
    for now, limit in ((1_000.0, 6), (1_059.9, 6), (1_060.0, None)):
        assert order_for(change, watch.looked(change, 12, now), 12, now) == Order(limit=limit)


def test_tracker_down_acks_accumulate_and_its_successor_goes_on_from_the_topics_alone() -> None:
    story = grown(growth(required_groups=("billing",)))
    interrupted = story.change
    story.says("ab", Status.APPLIED)
    story.probed("billing", assigned=NEW)
    successor = Story(cluster=story.cluster, now_ms=story.now_ms + 60_000)
    successor.ledger.take_change(interrupted)
    for tenancy in story.ledger.tenancies.values():
        successor.ledger.take_lease(tenancy.holder.record, tenancy.holder.at_ms)
    for appended in story.fleet.acks.values():
        successor.ledger.take_ack(appended.record, appended.at_ms)
    assert successor.tick() is State.CONVERGED


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
    assert seen.change.blind
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
    assert story.change.reason is Reason.TOPIC_ID_CHANGED


def test_growth_to_another_number_is_a_conflict() -> None:
    story = Story()
    story.request(gated())
    story.sees(count=8)
    assert story.tick() is State.REJECTED
    assert story.change.reason is Reason.CONFLICT


class TestHalfOfTheFleetKilled:
    def test_it_is_said_and_the_change_does_not_converge_fully(self) -> None:
        story = grown(growth(required_groups=()), "abcd")
        story.tick(170)
        story.lives("ab", seen=12)
        assert story.tick(20) is State.PARTIALLY_CONVERGED
        assert story.change.totals.departed == 2
        assert story.change.totals.live == 2

    def test_who_is_lost_is_waited_for_during_a_grace(self) -> None:
        story = grown(growth(required_groups=()), "ab")
        story.tick(150)
        story.lives("a", seen=12)
        assert story.tick(29.999) is State.CONVERGING
        assert story.change.totals.pending == 1
        assert story.tick(0.001) is State.PARTIALLY_CONVERGED

    def test_who_has_stopped_in_good_order_is_not_waited_for(self) -> None:
        story = grown(growth(required_groups=()), "ab")
        story.lives("a", seen=12)
        story.lives("b", state=LeaseState.DOWN)
        story.tick()
        assert story.change.totals.departed == 1

    def test_a_few_come_and_go_all_the_time(self) -> None:
        fleet = [f"i{n}" for n in range(40)]
        story = Story()
        story.lives(fleet)
        story.request(growth(required_groups=()))
        story.sees(count=12)
        story.tick()
        story.lives(fleet[:38], seen=12)
        story.lives(fleet[38:], state=LeaseState.DOWN)
        assert MASS_EXIT * 40 == 2
        assert story.tick() is State.CONVERGED


def test_a_producer_with_a_tiny_buffer_is_capped_and_says_what_it_can_afford() -> None:
    story = grown(growth(required_groups=()))
    limit = Capacity(buffer_memory=65_536, batch_size=16_384)
    story.says("a", Status.CAPPED, reason="buffer_limit", limit=limit, seen_count=12, used_count=4)
    story.says("b", Status.APPLIED)
    assert story.tick() is State.PARTIALLY_CONVERGED
    capped = story.fleet.acks["a"].record
    assert (capped.used_count, capped.limit) == (4, limit)


def test_a_storm_of_acks_is_spread_over_five_seconds() -> None:
    delays = [ack_delay("chg-1", f"instance-{n}") for n in range(10_000)]
    assert all(0 <= delay < ACK_SPREAD_S for delay in delays)
    per_second = [sum(second <= delay < second + 1 for delay in delays) for second in range(5)]
    assert max(per_second) < 2_200
    assert delays[7] == ack_delay("chg-1", "instance-7")


class TestRestartsAndLateComers:
    def test_who_comes_after_the_growth_is_counted_apart_and_blocks_nothing(self) -> None:
        story = grown(growth(required_groups=()), "a")
        story.now_ms += 1
        story.lives("z", seen=6)
        story.says("a", Status.APPLIED)
        assert story.tick() is State.CONVERGED
        assert (story.change.totals.late_joined, story.change.totals.live) == (1, 1)

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

    def test_two_processes_that_alternate_under_one_name_are_noticed(self) -> None:
        story = grown(growth(required_groups=()), "a")
        born = story.ledger.tenancies["a"].holder.born_ms
        for _ in range(4):
            story.now_ms += 30_000
            second = lease("a", incarnation="a-2", lease_seq=story.now_ms, born_ms=START_MS + 30_000)
            story.ledger.take_lease(second, story.now_ms)
            story.lives("a", incarnation="a-1", lease_seq=story.now_ms, born_ms=born)
        (follower,) = followers(story.change, story.fleet, story.now_ms)
        assert follower.duplicate
        story.tick()
        assert story.change.totals.duplicates == 1


def test_even_if_every_ack_is_lost_leases_tell() -> None:
    story = grown(growth(required_groups=()))
    story.lives("ab", seen=12)
    assert story.tick() is State.CONVERGED
    assert not story.fleet.acks
