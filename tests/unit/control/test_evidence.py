"""What counts as evidence, for which level; and what is said when the numbers can't be complete."""

from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.control.changes.evidence import ClusterView, coverage
from kafka_partition_events.control.protocol.records import Order, TopicUse
from kafka_partition_events.control.protocol.vocabulary import Kind, LeaseState, Role, Status
from tests.control_kit import NEW, TOPIC_ID, Story, ack, draining, gated, grown, growth, shrinking

HALF, REST = frozenset(range(6, 9)), frozenset(range(9, 12))


class TestLevels:
    def test_exists_when_an_observer_sees_all_partitions(self) -> None:
        story = Story()
        story.request(growth())
        assert not story.evidence.exists
        story.sees(count=12)
        assert story.evidence.exists

    def test_acked_when_every_live_producer_has_followed_as_far_as_it_can_afford(self) -> None:
        story = grown(growth())
        story.says("a", Status.APPLIED)
        assert not story.evidence.acked
        story.says("b", Status.CAPPED)
        assert story.evidence.acked

    def test_assigned_is_not_positioned(self) -> None:
        story = grown(gated())
        story.probed("billing", assigned=NEW)
        assert (story.evidence.assigned, story.evidence.positioned) == (True, False)

    def test_positions_that_members_have_made_belong_to_the_group_whoever_owns_the_partition_now(
        self,
    ) -> None:
        story = grown(gated())
        for name, new in (("x", HALF), ("y", REST)):
            story.lives([name], role=Role.CONSUMER, group="billing")
            story.says([name], Status.APPLIED, role=Role.CONSUMER, group="billing", positioned=new)
        assert story.evidence.positioned

    @pytest.mark.parametrize(
        "lease",
        [
            {},
            {"role": Role.CONSUMER, "group": "audit"},
            {"role": Role.PRODUCER, "group": "billing"},
            {"role": Role.CONSUMER, "group": "billing", "incarnation": "x-2"},
            {"role": Role.CONSUMER, "group": "billing", "state": LeaseState.DOWN},
        ],
        ids=["nobody", "of another group", "a producer", "another process", "has stopped"],
    )
    def test_who_is_no_member_by_his_lease_tells_nothing_of_the_group(self, lease: dict[str, Any]) -> None:
        story = grown(gated())
        if lease:
            story.lives("x", **lease)
        story.says("x", Status.APPLIED, role=Role.CONSUMER, group="billing", assigned=NEW, positioned=NEW)
        assert (story.evidence.assigned, story.evidence.positioned) == (False, False)

    def test_flowing_when_groups_have_committed_beyond_where_they_began(self) -> None:
        story = grown(gated())
        story.probed("billing", assigned=NEW, positioned=NEW, flowing=HALF)
        assert not story.evidence.flowing
        story.probed("billing", assigned=NEW, positioned=NEW, flowing=NEW)
        assert story.evidence.flowing

    def test_a_group_that_commits_counts_as_assigned_even_if_it_assigns_by_hand(self) -> None:
        story = grown(growth(required_groups=("by-hand",)))
        story.probed("by-hand", members=0, flowing=NEW)
        assert story.evidence.assigned

    def test_partitions_that_are_left_are_to_be_drained(self) -> None:
        story = Story()
        story.request(shrinking(required_groups=("billing",)))
        story.tick()
        story.probed("billing", assigned=frozenset({4, 5}), positioned=frozenset({4, 5}))
        assert not story.evidence.drained
        assert story.evidence.uncovered_groups == ("billing",)
        story.probed("billing", drained=frozenset({4, 5}))
        assert story.evidence.drained


class TestWhichGroups:
    def groups(self, story: Story) -> list[str] | None:
        found = coverage(story.change, story.fleet, story.cluster, story.now_ms)
        return None if found is None else [c.group for c in found]

    def test_those_that_were_named(self) -> None:
        assert self.groups(grown(gated(required_groups=("z", "a")))) == ["a", "z"]

    def test_else_all_that_read_the_topic_as_prober_or_leases_tell(self) -> None:
        story = grown(growth())
        story.lives("c", role=Role.CONSUMER, group="in-process")
        assert self.groups(story) == ["billing", "in-process"]

    def test_not_one_that_has_left_in_good_order_or_reads_something_else(self) -> None:
        story = grown(growth())
        story.lives("c", role=Role.CONSUMER, group="gone", state=LeaseState.DOWN)
        story.lives("d", role=Role.CONSUMER, group="elsewhere", cluster_id="c-2")
        story.lives("e", role=Role.CONSUMER, group="other", view=(TopicUse(topic="x", seen=1, used=1),))
        story.lives("f", role=Role.PRODUCER, group="writing")
        assert self.groups(story) == ["billing"]

    def test_not_one_whose_members_are_lost(self) -> None:
        story = grown(growth())
        story.lives("c", role=Role.CONSUMER, group="lost")
        story.now_ms += 180_001
        assert self.groups(story) == ["billing"]

    def test_one_without_members_only_if_it_was_named(self) -> None:
        for spec, expected in ((growth(), []), (growth(required_groups=("billing",)), ["billing"])):
            story = grown(spec)
            story.probed("billing", members=0)
            assert self.groups(story) == expected

    def test_nobody_knows_before_somebody_has_looked(self) -> None:
        story = grown(growth())
        story.sees(readers=None)
        assert self.groups(story) is None
        assert not story.evidence.assigned
        assert not story.evidence.positioned

    def test_none_for_a_broker_which_leads_now_these_and_then_those(self) -> None:
        story = Story()
        story.request(draining(topic=None, topic_id=None, partitions=frozenset(), broker=1))
        assert self.groups(story) == []


class TestWhichProducers:
    def counted(self, **fields: object) -> int:
        story = grown(growth(), producers="")
        story.now_ms -= 10
        story.lives("a", **fields)  # type: ignore[arg-type]
        return story.evidence.totals.live

    def test_those_that_use_the_topic(self) -> None:
        assert self.counted() == 1
        assert self.counted(view=()) == 0
        assert self.counted(role=Role.CONSUMER) == 0
        assert self.counted(cluster_id="c-2") == 0

    def test_those_that_can_not_tell_which_cluster_or_topic_id(self) -> None:
        assert self.counted(cluster_id=None) == 1
        use = TopicUse(topic="orders", seen=6, used=6)
        assert self.counted(view=(use,)) == 1

    def test_not_those_that_were_gone_before_it_was_requested_and_have_not_come_back(self) -> None:
        story = Story()
        story.lives("lm")
        story.lives("ds", state=LeaseState.DOWN)
        story.now_ms += 200_000
        story.lives("an")
        story.request(growth())
        story.lives("ms")
        story.lives("n", state=LeaseState.DOWN)
        totals = story.evidence.totals
        assert (totals.live, totals.departed) == (3, 1), "a, m, s; and n"

    def test_not_those_that_use_an_older_topic_of_that_name(self) -> None:
        use = TopicUse(topic="orders", topic_id="old", seen=6, used=6)
        assert self.counted(view=(use,)) == 0


class TestWhatLeasesShow:
    def status(self, story: Story) -> tuple[int, int, int]:
        totals = story.evidence.totals
        return totals.applied, totals.capped, totals.pending

    def test_that_all_is_used(self) -> None:
        story = grown(growth(), "a")
        story.lives("a", seen=12)
        assert self.status(story) == (1, 0, 0)

    def test_that_less_is_used_than_seen_and_no_gate_can_be_the_cause(self) -> None:
        story = grown(growth(), "a")
        story.lives("a", seen=12, used=4)
        assert self.status(story) == (0, 1, 0)

    def test_not_what_is_the_cause_if_there_was_a_gate(self) -> None:
        story = grown(gated(), "a")
        story.lives("a", seen=12, used=6)
        assert story.evidence.totals.held == 1
        assert story.evidence.totals.capped == 0

    @pytest.mark.parametrize("spec", [shrinking(), draining(), draining(kind=Kind.ONLINE)])
    def test_not_which_partitions_were_left(self, spec: object) -> None:
        story = Story()
        story.lives("a")
        story.request(spec)  # type: ignore[arg-type]
        story.tick()
        story.lives("a", used=4)
        assert self.status(story) == (0, 0, 1)

    def test_nothing_of_another_process_that_had_the_name(self) -> None:
        story = grown(growth(), "a")
        story.ledger.take_ack(ack("a", Status.APPLIED, incarnation="a-0", ack_seq=99), story.now_ms)
        assert self.status(story) == (0, 0, 1)


class TestArmed:
    def test_when_every_live_producer_says_that_it_holds(self) -> None:
        story = Story()
        story.lives("ab")
        story.request(gated())
        story.says("a", Status.HELD)
        assert story.evidence.unarmed
        story.says("b", Status.HELD)
        assert not story.evidence.unarmed
        story.lives("c")
        assert story.evidence.unarmed == ("c",)

    def test_who_was_not_when_the_topic_grew_may_have_written_too_early_and_that_stays_said(self) -> None:
        story = Story()
        story.lives("ab")
        story.request(gated())
        story.says("a", Status.HELD)
        story.sees(count=12)
        story.tick()
        story.says("b", Status.HELD)
        story.tick()
        assert story.change.unarmed == 1
        assert story.change.unverified == ("producers that did not hold the gate when the topic grew: 1",)

    def test_who_began_to_hold_after_growth_may_have_written_too_early(self) -> None:
        story = Story()
        story.lives("ab")
        story.request(gated())
        story.says("a", Status.HELD, armed_count=6, seen_count=12)  # it has said so once more since
        story.says("b", Status.HELD, armed_count=12)
        story.sees(count=12)
        assert story.evidence.unarmed == ("b",)
        story.tick()
        assert story.change.unverified == ("producers that did not hold the gate when the topic grew: 1",)

    def test_who_uses_all_of_a_topic_that_has_grown_does_not_hold(self) -> None:
        story = Story()
        story.lives("a", seen=12)
        story.request(gated())
        story.sees(count=12)
        assert story.evidence.unarmed == ("a",)

    def test_a_limit_from_before_holds_whoever_keeps_to_it(self) -> None:
        story = Story()
        story.lives("a", seen=12, used=6)
        story.lives("b", seen=12, used=12)
        story.sees(count=12)
        story.request(gated())
        story.ledger.take_change(evolve(story.change, before=Order(limit=6), revision=9))
        assert story.evidence.unarmed == ("b",)
        story.says("b", Status.HELD, armed_count=12)
        assert not story.evidence.unarmed

    def test_leases_do_not_prove_it(self) -> None:
        story = Story()
        story.lives("a", seen=6, used=6)
        story.request(gated())
        assert story.evidence.unarmed


class TestWhatIsNotKnown:
    def doubts(self, **seen: object) -> tuple[str, ...]:
        story = grown(growth())
        story.sees(**seen)
        return story.evidence.unverified

    def test_nothing_if_all_can_be_seen(self) -> None:
        assert self.doubts() == ()

    @pytest.mark.parametrize(
        ("seen", "doubt"),
        [
            ({"blind": True}, "the cluster can't be seen"),
            ({"readers": None}, "which groups read the topic is not known"),
            ({"writers": None}, "which producers write without the library is not known"),
            ({"writers": 5}, "producers without a lease write: 3"),
            ({"topic_id": None}, "the topic's id can't be told"),
        ],
    )
    def test_each_gap_is_named(self, seen: dict[str, object], doubt: str) -> None:
        assert self.doubts(**seen) == (doubt,)

    def test_a_writer_whose_lease_has_run_out_is_uncovered_again(self) -> None:
        story = grown(growth(), "a")
        story.sees(writers=1)
        assert story.evidence.totals.uncovered == 0
        story.now_ms += 91_000
        assert story.evidence.totals.uncovered == 1

    def test_instances_with_more_topics_than_a_lease_lists(self) -> None:
        story = grown(growth())
        story.lives("c", view=(), topics_left_out=3)
        assert story.evidence.unverified == ("instances that do not list all of their topics: 1",)

    def test_a_cohort_that_has_departed_as_a_whole(self) -> None:
        story = grown(growth())
        story.lives("ab", state=LeaseState.DOWN)
        assert story.evidence.unverified == ("no producer that was there is left",)

    def test_an_empty_cohort_is_never_acked(self) -> None:
        story = grown(growth(required_groups=()), producers="")
        assert not story.evidence.acked
        assert "no producer with the library uses it" in story.evidence.unverified


def test_what_the_cluster_does_not_tell_is_not_made_up() -> None:
    story = grown(growth())
    story.cluster = ClusterView(count=12, topic_id=TOPIC_ID)
    assert story.evidence.totals.uncovered is None
    assert story.evidence.groups == ()
