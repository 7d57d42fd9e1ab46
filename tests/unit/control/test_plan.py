"""What a change would do: told from leases, groups, keys and history."""

from collections.abc import Collection
from fractions import Fraction
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.control.changes.plan import (
    Plan,
    Safety,
    Seen,
    Verdict,
    moved_modulo,
    moved_monotone,
    plan,
)
from kafka_partition_events.control.groups.state import Group, Member
from kafka_partition_events.control.protocol.records import Change, Command, TopicUse
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import (
    GateRule,
    Reason,
    State,
    Verb,
)
from kafka_partition_events.diagnose.fingerprint import Fingerprint, fingerprint, known_hashes
from tests.control_kit import Story, gated, growth

KIB = 1024
BILLING = Group(group_id="billing", members=(Member(member_id="x"), Member(member_id="y")))


def planned(
    spec: Spec, story: Story | None = None, groups: Collection[Group] | None = (), keys: Any = None
) -> Plan:
    story = story or Story()
    command = Command(change_id="new", verb=Verb.REQUEST, actor="alice", spec=spec)
    return plan(command, story.ledger, Seen(cluster=story.cluster, groups=groups, keys=keys), story.now_ms)


class TestBlocked:
    def test_nothing_is_in_the_way(self) -> None:
        found = planned(growth())
        assert (found.verdict, found.refusal) == (Verdict.SAFE, None)

    @pytest.mark.parametrize(
        ("seen", "reason"),
        [
            ({"count": None}, Reason.TOPIC_UNKNOWN),
            ({"count": 7}, Reason.CONFLICT),
            ({"topic_id": "another"}, Reason.TOPIC_ID_CHANGED),
            ({"blind": True}, Reason.CLUSTER_UNKNOWN),
        ],
    )
    def test_the_topic_is_not_as_it_should_be(self, seen: dict[str, Any], reason: Reason) -> None:
        story = Story()
        story.sees(**seen)
        found = planned(growth(), story)
        assert found.verdict is Verdict.BLOCKED
        assert found.refusal is not None
        assert found.refusal.refused is reason

    def test_another_change_is_open_and_the_refusal_says_what_to_do(self) -> None:
        story = Story()
        story.request(growth())
        found = planned(growth(), story)
        assert found.refusal is not None
        assert found.refusal.refused is Reason.ANOTHER_CHANGE_OPEN
        assert "kpe change wait" in found.refusal.detail

    def test_planning_changes_nothing(self) -> None:
        story = Story()
        planned(growth(), story)
        assert story.ledger.changes == {}


class TestCapped:
    def capped(self, *, to: int = 12, **fields: Any) -> list[int]:
        story = Story()
        story.lives("a", **fields)
        found = planned(growth(to_count=to), story)
        assert (found.verdict is Verdict.WOULD_CAP) == bool(found.capped)
        return [*found.capped.values()]

    def test_no_limit_is_told(self) -> None:
        assert self.capped() == []

    def test_a_limit_of_the_topic_itself(self) -> None:
        assert self.capped(view=(TopicUse(topic="orders", seen=6, used=6, affords=10),)) == [10]

    def test_a_limit_of_another_topic(self) -> None:
        orders = TopicUse(topic="orders", seen=6, used=6)
        assert self.capped(view=(orders, TopicUse(topic="payments", seen=4, used=2, affords=2))) == []


class TestGroups:
    def safety(self, spec: Spec, hooked: int = 0, group: Group = BILLING) -> Safety:
        story = Story()
        story.lives("xyz"[:hooked], group="billing")
        (outlook,) = planned(spec, story, [group]).groups or ()
        assert outlook.hooked == hooked
        return outlook.safety

    def test_growth_without_a_gate_exposes_a_group(self) -> None:
        assert self.safety(growth()) is Safety.EXPOSED
        assert planned(growth(), groups=[BILLING]).verdict is Verdict.EXPOSED

    def test_a_hook_in_every_member_makes_it_safe(self) -> None:
        assert self.safety(growth(), hooked=2) is Safety.HOOK
        assert self.safety(growth(), hooked=1) is Safety.EXPOSED

    def test_the_hook_counts_as_long_as_its_lease_does(self) -> None:
        story = Story()
        story.lives("xy", group="billing")
        story.now_ms += 91_000
        (outlook,) = planned(growth(), story, [BILLING]).groups or ()
        assert (outlook.hooked, outlook.safety) == (0, Safety.EXPOSED)

    def test_a_gate_makes_required_groups_safe_and_no_others(self) -> None:
        every = growth(gate=GateRule.CONSUMERS_FIRST)
        assert self.safety(every) is Safety.GATE
        assert self.safety(gated()) is Safety.GATE
        assert self.safety(gated(required_groups=("audit",))) is Safety.EXPOSED

    def test_nothing_settles_with_settle_s_0(self) -> None:
        assert self.safety(gated(settle_s=0.0)) is Safety.EXPOSED
        assert self.safety(gated(settle_s=0.0), hooked=2) is Safety.HOOK

    def test_one_without_members_is_told_of_and_stops_nothing(self) -> None:
        gone = Group(group_id="billing", state="EMPTY")
        assert self.safety(growth(), group=gone) is Safety.ABSENT
        assert self.safety(growth(gate=GateRule.CONSUMERS_FIRST), group=gone) is Safety.ABSENT
        assert self.safety(gated(), group=gone) is Safety.GATE
        assert planned(growth(), groups=[gone]).verdict is Verdict.SAFE

    def test_nobody_could_be_asked(self) -> None:
        assert planned(growth(), groups=None).groups is None


class TestKeys:
    @pytest.mark.parametrize(("before", "after"), [(1, 2), (6, 12), (12, 13), (12, 6), (10, 4), (7, 7)])
    def test_modulo_is_counted_out(self, before: int, after: int) -> None:
        values = range(before * after)
        moved = sum(value % before != value % after for value in values)
        assert moved_modulo(before, after) == Fraction(moved, len(values))

    def test_monotone(self) -> None:
        assert moved_monotone(12, 13) == Fraction(1, 13)
        assert moved_monotone(12, 6) == Fraction(1, 2)

    def found(self, hash_name: str, partitions: int = 6) -> Fingerprint:
        place = known_hashes()[hash_name]
        keys = [b"customer-%d" % number for number in range(1_000)]
        return fingerprint([(key, place(key, partitions)) for key in keys], 6)

    @pytest.mark.parametrize(
        ("rule", "moves"), [("murmur2", Fraction(1, 2)), ("rendezvous-murmur2", Fraction(1, 2))]
    )
    def test_growth_to_twice_as_many(self, rule: str, moves: Fraction) -> None:
        (keys,) = planned(growth(), keys=self.found(rule)).keys or ()
        assert (keys.rule, keys.moves) == (rule, moves)
        assert keys.share == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("rule", "moves"), [("crc32", Fraction(6, 7)), ("rendezvous-crc32", Fraction(1, 7))]
    )
    def test_growth_by_one(self, rule: str, moves: Fraction) -> None:
        (keys,) = planned(growth(to_count=7), keys=self.found(rule)).keys or ()
        assert keys.moves == moves

    def test_keys_that_are_kept_do_not_move_by_growth(self) -> None:
        (keys,) = planned(growth(), keys=self.found("murmur2", partitions=4)).keys or ()
        assert (keys.rule, keys.moves) == ("murmur2", None)

    def test_another_writer_is_told_apart(self) -> None:
        place = known_hashes()["murmur2"]
        keyed = [(b"%d" % n, place(b"%d" % n, 6) if n % 2 else 0) for n in range(2_000)]
        murmur2, rest = planned(growth(), keys=fingerprint(keyed, 6)).keys or ()
        assert (murmur2.rule, murmur2.moves) == ("murmur2", Fraction(1, 2))
        assert (rest.rule, rest.moves) == (None, None)

    def test_what_comes_to_the_same_is_told_once(self) -> None:
        place = known_hashes()["murmur2"]
        keyed = [(b"%d" % n, place(b"%d" % n, 6 if n % 2 else 4)) for n in range(2_000)]
        (keys,) = planned(growth(from_count=4, to_count=8), keys=fingerprint(keyed, 6)).keys or ()
        assert (keys.rule, keys.moves) == ("murmur2", Fraction(1, 2))
        assert keys.share == pytest.approx(1.0)

    def test_nobody_has_looked(self) -> None:
        assert planned(growth()).keys is None


def _finished(change: Change, now_ms: int, took: float) -> Change:
    return evolve(
        change,
        revision=change.revision + 1,
        state=State.CONVERGED,
        observed_ms=now_ms,
        finished_ms=now_ms + round(1_000 * took),
    )


def test_a_plan_doubts_what_the_tracker_would_doubt() -> None:
    assert "no producer with the library uses it" in planned(growth()).unverified
    story = Story()
    story.lives("a")
    assert planned(growth(), story).unverified == ()
    story.sees(writers=3)
    found = planned(growth(), story)
    assert found.uncovered == 2
    assert "producers without a lease write: 2" in found.unverified
