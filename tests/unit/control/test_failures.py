"""The failure table (research: ops.md 4.9), as far as it is about what is known and not about connections."""

from kafka_partition_events.control.agents.leases import SPREAD_S, delay_of
from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.protocol.vocabulary import State
from tests.control_kit import Story, grown, growth, lease


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


class TestHalfOfTheFleetKilled:
    def test_who_is_lost_is_waited_for_during_a_grace(self) -> None:
        story = grown(growth(required_groups=()), "ab")
        story.tick(150)
        story.lives("a", seen=12)
        assert story.tick(29.999) is State.CONVERGING
        assert story.change.totals.pending == 1
        assert story.tick(0.001) is State.CONVERGED


def test_the_news_of_a_fleet_is_spread_over_five_seconds() -> None:
    delays = [delay_of(f"instance-{n}") for n in range(10_000)]
    assert all(0 <= delay < SPREAD_S for delay in delays)
    per_second = [sum(second <= delay < second + 1 for delay in delays) for second in range(5)]
    assert max(per_second) < 2_200
    assert delays[7] == delay_of("instance-7")


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
