"""What counts as evidence, and what is said when the numbers can't be complete."""

from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.control.changes.evidence import Status, positions_of_groups
from kafka_partition_events.control.protocol.bounds import MOST_ITEMS
from kafka_partition_events.control.protocol.codec import encode
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import TopicUse, group_name
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from tests.control_kit import NEW, UNGROWN, Story, gated, grown, growth


@pytest.mark.parametrize("lease", [{"group": "audit"}, {"group": "billing", "ttl_s": 0.0}])
def test_who_is_no_member_says_nothing_of_the_positions_of_a_group(lease: dict[str, Any]) -> None:
    story = grown(gated())
    story.lives("x", positioned=PartitionSet.of(NEW), **lease)
    assert not story.evidence.positioned


class TestWhichGroups:
    def groups(self, story: Story) -> list[str]:
        return [*positions_of_groups(story.change, story.ledger.leases, story.cluster, story.now_ms)[0]]

    def test_all_that_prober_or_leases_have_shown_since_the_request(self, story: Story) -> None:
        story.lives("a")
        story.lives("c", group="in-process")
        story.request(gated())
        story.tick()
        story.lives("c", group="in-process", ttl_s=0.0)
        story.sees(readers=frozenset())
        assert self.groups(story) == ["billing", "in-process"]

    def test_not_one_that_has_left_before_the_request_or_reads_something_else(self, story: Story) -> None:
        story.sees(readers=frozenset())
        story.lives("c", group="gone", ttl_s=0.0)
        story.lives("d", group="elsewhere", view=())
        story.request(gated())
        story.tick()
        assert self.groups(story) == []

    def test_no_lease_pushes_out_one_that_brokers_have_shown(self, story: Story) -> None:
        story.request(gated())
        story.tick()
        for number in range(MOST_ITEMS):
            story.lives([f"x{number}"], group=f"!{number:04}")
        assert story.tick() is State.REQUESTED
        story.sees(readers=frozenset({"zoo"}))
        story.tick()
        assert self.groups(story)[:2] == ["zoo", "billing"]
        assert len(self.groups(story)) == MOST_ITEMS
        assert not story.evidence.positioned, "some are not even named"
        assert story.evidence.unverified[0] == "more groups read the topic than can be named"
        story.sees(readers=frozenset())
        story.tick()
        assert {"zoo", "billing"} < {*self.groups(story)}

    @pytest.mark.parametrize("name", ["{}" + 1_990 * "x", "{}" + 240 * "\N{GRINNING FACE}", "{}" + 240 * '"'])
    def test_no_lease_makes_a_change_too_large_to_be_written(self, name: str, story: Story) -> None:
        story.command(Verb.REQUEST, spec=gated(), reason=2_000 * '"')
        for number in range(MOST_ITEMS):
            story.lives([f"x{number}"], group=name.format(number))
        story.tick()
        assert encode(story.change)
        assert self.groups(story)[0] == "billing"
        assert len(self.groups(story)) > 100

    def test_one_with_a_long_name_is_the_one_that_brokers_show(self) -> None:
        name = 300 * "g"
        story = grown(gated(), cluster=evolve(UNGROWN, readers=frozenset({group_name(name)})))
        story.lives("x", group=name, positioned=PartitionSet.of(NEW))
        assert story.evidence.positioned


class TestWhichProducers:
    def counted(self, **fields: object) -> int:
        story = grown(growth(), producers="")
        story.now_ms -= 10
        story.lives("a", **fields)  # type: ignore[arg-type]
        return story.evidence.totals.live

    def test_those_that_use_the_topic_or_can_not_tell_its_id(self) -> None:
        assert self.counted() == 1
        assert self.counted(view=()) == 0
        assert self.counted(group="billing") == 0
        use = TopicUse(topic="orders", seen=6, used=6)
        assert self.counted(view=(use,)) == 1
        assert self.counted(view=(evolve(use, topic_id="old"),)) == 0


def test_who_waits_at_the_gate_of_an_earlier_change_is_not_capped() -> None:
    story = grown(growth(), "a")
    story.lives("a", seen=12, used=6, holds="chg-0", armed=True)
    totals = story.evidence.totals
    assert (totals.applied, totals.capped, totals.pending) == (0, 0, 1)
    assert story.evidence.unarmed == 1


class TestArmed:
    def test_who_was_not_when_the_topic_grew_may_have_written_too_early_and_that_stays_said(self) -> None:
        story = Story()
        story.lives("ab")
        story.request(gated())
        assert story.evidence.unarmed == 2
        story.says("a", Status.HELD)
        story.says("b", Status.HELD, seen=12, used=6, armed=False)
        story.sees(count=12)
        assert story.evidence.unarmed == 1
        story.tick()
        story.says("b", Status.HELD)
        story.tick()
        assert story.change.totals.unarmed == 1
        assert story.change.unverified == ("producers that did not hold the gate when the topic grew: 1",)

    @pytest.mark.parametrize(("spec", "unarmed"), [(gated(), 2), (growth(), 0)])
    def test_one_whose_lease_lacks_the_topic_may_begin_to_use_it(self, spec: Spec, unarmed: int) -> None:
        others = (TopicUse(topic="other", seen=1, used=1),)
        story = Story()
        story.lives("a", view=others)
        story.lives("b", view=())
        story.lives("c", view=others, group="billing")
        story.lives("d", view=others, ttl_s=0.0)
        story.request(spec)
        assert (story.evidence.unarmed, story.evidence.totals.live) == (unarmed, 0)

    def test_a_producer_that_holds_and_does_not_use_the_topic_is_armed_and_not_waited_for(self) -> None:
        story = Story()
        story.request(gated())
        story.says("a", Status.HELD, seen=0)
        assert (story.evidence.unarmed, story.evidence.totals.live) == (0, 0)


@pytest.mark.parametrize(
    ("seen", "doubt"),
    [
        ({"blind": True}, "the topic can't be seen"),
        ({"readers": None}, "which groups read the topic is not known"),
        ({"topic_id": None}, "the topic's id is not known"),
    ],
)
def test_each_gap_in_what_is_known_is_named(seen: dict[str, object], doubt: str) -> None:
    story = grown(growth())
    story.sees(**seen)
    assert story.evidence.unverified == (doubt,)
