"""The failure table (research: ops.md 4.9), as far as it is about what is known and not about connections."""

from kafka_partition_events.control.agents.leases import SPREAD_S, delay_of
from kafka_partition_events.control.protocol.vocabulary import State
from tests.control_kit import grown, growth


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
