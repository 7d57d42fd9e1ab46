"""What a change would do, by leases, groups and history."""

from collections.abc import Collection

from kafka_partition_events.control.changes.plan import Plan, Safety, Verdict, plan
from kafka_partition_events.control.groups.state import Group, Member
from kafka_partition_events.control.protocol.spec import Spec
from tests.control_kit import Story, gated, growth

BILLING = Group(group_id="billing", members=(Member(member_id="x"), Member(member_id="y")))


def planned(
    spec: Spec, story: Story | None = None, groups: Collection[Group] | None = (), *, compacted: bool = False
) -> Plan:
    story = story or Story()
    return plan(spec, story.ledger, story.cluster, groups, compacted=compacted, now_ms=story.now_ms)


class TestBlocked:
    def test_another_change_is_open_and_the_refusal_says_what_to_do(self, story: Story) -> None:
        story.request(growth())
        found = planned(growth(), story)
        assert found.refusal is not None
        assert "kpe change wait" in found.refusal

    def test_no_change_is_in_its_way_whatever_its_id(self, story: Story) -> None:
        story.request(growth(topic="other"), change_id="")
        assert planned(growth(), story).refusal is None


class TestGroups:
    def safety(self, spec: Spec, hooked: int = 0, group: Group = BILLING) -> Safety:
        story = Story()
        story.lives("xyz"[:hooked], group="billing")
        (outlook,) = planned(spec, story, [group]).groups or ()
        assert outlook.hooked == hooked
        return outlook.safety

    def test_a_hook_in_every_member_makes_it_safe(self) -> None:
        assert self.safety(growth(), hooked=2) is Safety.HOOK
        assert self.safety(growth(), hooked=1) is Safety.EXPOSED

    def test_the_hook_counts_as_long_as_its_lease_does(self, story: Story) -> None:
        story.lives("xy", group="billing")
        story.now_ms += 91_000
        (outlook,) = planned(growth(), story, [BILLING]).groups or ()
        assert (outlook.hooked, outlook.safety) == (0, Safety.EXPOSED)

    def test_one_without_members_is_told_of_and_stops_nothing(self) -> None:
        gone = Group(group_id="billing", state="EMPTY")
        assert self.safety(growth(), group=gone) is Safety.ABSENT
        assert self.safety(gated(), group=gone) is Safety.ABSENT
        assert planned(growth(), groups=[gone]).verdict is Verdict.SAFE

    def test_one_of_kafka_streams_is_named(self) -> None:
        streams = Group(group_id="app", assignor="stream", members=(Member(member_id="m"),))
        assert self.safety(gated(), group=streams) is Safety.STREAMS
        assert planned(growth(), groups=[streams]).verdict is Verdict.EXPOSED


def test_it_is_exposed_where_no_producer_waits_and_where_a_topic_is_compacted() -> None:
    alone = planned(gated())
    assert "no producer with the library uses it" in alone.unverified
    story = Story()
    story.lives("a")
    assert (planned(gated(), story).verdict, planned(gated(), story).unverified) == (Verdict.SAFE, ())
    for found, why in ((alone, "no producer"), (planned(gated(), story, compacted=True), "compacted")):
        assert found.verdict is Verdict.EXPOSED
        assert why in found.exposed[0]
