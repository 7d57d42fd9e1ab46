"""The state machine, row by row of its table (research: ops.md 4.4)."""

import pytest

from kafka_partition_events.control.changes.evidence import ClusterView, Status
from kafka_partition_events.control.changes.transitions import is_due
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from tests.control_kit import NEW, TOPIC_ID, UNREAD, Story, gated, grown, growth


class TestAnIncrease:
    def test_is_observed_when_the_topic_has_grown_whoever_did_it(self) -> None:
        story = grown(growth())
        assert story.path == [State.REQUESTED, State.CONVERGING]
        assert story.change.observed_ms == story.now_ms
        assert story.change.deadline_ms == story.now_ms + 600_000

    def test_conflicts_with_growth_to_another_number(self, story: Story) -> None:
        story.request(growth())
        story.sees(count=9)
        assert story.tick() is State.REJECTED
        assert story.change.detail == "topic orders has 9 partitions, neither 6 nor 12"

    def test_converges_when_all_producers_use_it_and_all_groups_have_a_position(self) -> None:
        story = grown(growth())
        story.says("a", Status.APPLIED)
        assert story.tick() is State.CONVERGING
        story.says("b", Status.APPLIED)
        assert story.tick() is State.CONVERGING
        story.probed("billing", NEW)
        assert story.tick() is State.CONVERGED

    def test_converges_partially_when_a_budget_caps(self) -> None:
        story = grown(growth(), cluster=UNREAD)
        story.says("a", Status.APPLIED)
        story.says("b", Status.CAPPED)
        assert story.tick() is State.PARTIALLY_CONVERGED
        assert (story.change.totals.applied, story.change.totals.capped) == (1, 1)

    def test_is_overdue_when_somebody_has_not_followed_in_time_and_may_still_converge(self) -> None:
        story = grown(growth(), cluster=UNREAD)
        story.says("a", Status.APPLIED)
        assert story.tick(599) is State.CONVERGING
        story.lives("b")
        story.says("a", Status.APPLIED)
        assert story.tick(1) is State.OVERDUE
        story.says("b", Status.APPLIED)
        assert story.tick() is State.CONVERGED

    def test_expires_if_the_topic_does_not_grow(self, story: Story) -> None:
        story.request(gated())
        assert story.change.holds
        assert story.tick(3599) is State.REQUESTED
        assert story.tick(1) is State.EXPIRED
        assert not story.change.holds

    def test_does_not_expire_while_nobody_can_see_whether_the_topic_has_grown(self, story: Story) -> None:
        story.request(growth())
        story.sees(blind=True)
        assert story.tick(100_000) is State.REQUESTED
        story.sees(blind=False, count=12)
        assert story.tick() is State.CONVERGING

    def test_without_a_producer_it_never_converges_but_is_over_at_its_deadline(self) -> None:
        story = grown(growth(), "", UNREAD)
        assert story.tick(599) is State.CONVERGING
        assert story.tick(1) is State.PARTIALLY_CONVERGED
        assert "no producer with the library uses it" in story.change.unverified

    def test_who_is_lost_is_waited_for_during_a_grace(self) -> None:
        story = grown(growth(), "ab", UNREAD)
        story.tick(150)
        story.lives("a", seen=12)
        assert story.tick(29.999) is State.CONVERGING
        assert story.change.totals.pending == 1
        assert story.tick(0.001) is State.CONVERGED


class TestAGate:
    def test_opens_for_all_as_soon_as_every_group_has_a_position_on_each_new_partition(self) -> None:
        story = grown(gated())
        story.probed("billing", NEW - {11})
        assert story.tick(60) is State.GATED
        assert (story.change.holds, story.change.uncovered_groups) == (True, ("billing",))
        story.probed("billing", NEW)
        assert story.tick() is State.CONVERGING
        assert not story.change.holds
        assert story.change.opened_by == "evidence"
        assert story.path == [State.REQUESTED, State.GATED, State.CONVERGING]

    def test_waits_for_all_who_read_the_topic(self) -> None:
        story = grown(gated())
        story.sees(readers=frozenset({"billing", "audit"}))
        story.probed("billing", NEW)
        assert story.tick() is State.GATED
        story.probed("audit", NEW)
        assert story.tick() is State.CONVERGING

    def test_does_not_open_while_nobody_knows_who_reads_the_topic(self) -> None:
        story = Story(cluster=ClusterView(count=6, topic_id=TOPIC_ID))
        story.request(gated())
        story.sees(count=12)
        assert story.tick(599) is State.GATED
        assert "which groups read the topic is not known" in story.change.unverified


@pytest.mark.parametrize(
    ("execute", "seen"),
    [
        (False, {}),  # another one is to do it
        *((True, seen) for seen in ({"count": 12}, {"count": 7}, {"count": None})),
        (True, {"topic_id": "other"}),
        (True, {"blind": True}),
    ],
)
def test_the_tracker_does_not_grow_what_is_not_its_own_to_grow_has_grown_or_can_not_be_seen(
    execute: bool, seen: dict[str, object], story: Story
) -> None:
    story.request(growth(execute=execute))
    story.sees(**seen)
    assert not is_due(story.change, story.ledger.leases, story.cluster, story.now_ms)


class TestRejection:
    @pytest.mark.parametrize("spec", [growth(), gated()], ids=["open", "gated"])
    def test_if_the_topic_is_created_anew(self, spec: Spec) -> None:
        for story in (Story(), grown(spec)):
            if not story.ledger.changes:
                story.request(spec)
            story.sees(topic_id="topic-id-2", count=6)
            assert story.tick() is State.REJECTED
            assert "recreated" in story.change.detail
            assert not story.change.holds

    def test_if_the_topic_is_deleted(self) -> None:
        story = grown(growth())
        story.sees(count=None)
        assert story.tick() is State.REJECTED
        assert story.change.detail == "topic orders is gone"


def test_what_another_tracker_goes_on_with_bears_its_epoch() -> None:
    story = grown(gated())
    story.epoch = story.ledger.next_epoch()
    story.probed("billing", NEW)
    story.tick()
    assert (story.change.state, story.change.tracker_epoch) == (State.CONVERGING, 2)
    story.epoch = 3
    story.command(Verb.CANCEL)
    assert story.change.tracker_epoch == 3
