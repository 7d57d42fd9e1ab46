"""What a change would do: told from leases, groups, keys and history."""

from collections.abc import Collection
from fractions import Fraction
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.control.changes.plan import (
    Expected,
    Plan,
    Safety,
    Seen,
    Verdict,
    moved_modulo,
    moved_monotone,
    plan,
)
from kafka_partition_events.control.groups.state import Group, Member
from kafka_partition_events.control.protocol.records import Capacity, Change, Command, TopicUse
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import (
    GateRule,
    Kind,
    Reason,
    Role,
    State,
    Status,
    Verb,
)
from kafka_partition_events.routing.fingerprint import Fingerprint, fingerprint, known_hashes
from tests.control_kit import UNGROWN, Story, draining, gated, grown, growth, shrinking

KIB = 1024
BILLING = Group(group_id="billing", members=(Member(member_id="x"), Member(member_id="y")))
SIXTEEN_KIB = Capacity(buffer_memory=8 * 16 * KIB, batch_size=16 * KIB)
"""Affords eight partitions."""


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
        assert found.refusal.reason is reason

    def test_another_change_is_open_and_the_refusal_says_what_to_do(self) -> None:
        story = Story()
        story.request(growth())
        found = planned(growth(), story)
        assert found.refusal is not None
        assert found.refusal.reason is Reason.ANOTHER_CHANGE_OPEN
        assert "kpe change wait" in found.refusal.detail

    def test_planning_changes_nothing(self) -> None:
        story = Story()
        planned(growth(), story)
        assert story.ledger.changes == {}

    def test_what_is_no_request_has_no_plan(self) -> None:
        command = Command(change_id="new", verb=Verb.CANCEL, actor="alice")
        with pytest.raises(ValueError, match="does not request"):
            plan(command, Story().ledger, Seen(cluster=UNGROWN), 0)


class TestCapped:
    def capped(self, *, to: int = 12, **fields: Any) -> list[int]:
        story = Story()
        story.lives("a", **fields)
        found = planned(growth(to_count=to), story)
        assert (found.verdict is Verdict.WOULD_CAP) == bool(found.capped)
        return [capped.granted for capped in found.capped]

    def test_memory_for_eight_partitions(self) -> None:
        assert self.capped(capacity=SIXTEEN_KIB) == [8]

    def test_enough_memory(self) -> None:
        assert self.capped(capacity=SIXTEEN_KIB, to=8) == []

    def test_no_limit_is_told(self) -> None:
        assert self.capped() == []

    def test_how_many_tell_no_limit(self) -> None:
        story = Story()
        story.lives("ab")
        story.lives("c", capacity=SIXTEEN_KIB)
        story.lives("d", view=(TopicUse(topic="orders", seen=6, used=6, max_partitions=12),))
        assert planned(growth(), story).without_limit == 2

    def test_a_limit_of_the_topic_itself(self) -> None:
        assert self.capped(view=(TopicUse(topic="orders", seen=6, used=6, max_partitions=10),)) == [10]

    def test_a_limit_of_another_topic(self) -> None:
        orders = TopicUse(topic="orders", seen=6, used=6)
        assert self.capped(view=(orders, TopicUse(topic="payments", seen=4, used=2, max_partitions=2))) == []

    def test_what_another_topic_may_not_use_is_to_be_had(self) -> None:
        orders = TopicUse(topic="orders", seen=6, used=4)
        other = TopicUse(topic="payments", seen=4, used=2, max_partitions=2)
        assert self.capped(capacity=SIXTEEN_KIB, view=(orders, other)) == [6]

    def test_what_other_topics_hold_is_not_to_be_had(self) -> None:
        orders = TopicUse(topic="orders", seen=6, used=4)
        other = TopicUse(topic="payments", seen=4, used=4)
        assert self.capped(capacity=SIXTEEN_KIB, view=(orders, other)) == [4]

    def test_one_that_is_capped_already_stays_so(self) -> None:
        assert self.capped(capacity=Capacity(buffer_memory=64 * KIB, batch_size=16 * KIB), used=4) == [4]

    def test_memory_for_less_than_a_batch_still_affords_one_partition(self) -> None:
        small = Capacity(buffer_memory=KIB, batch_size=16 * KIB)
        assert self.capped(capacity=small, view=(TopicUse(topic="orders", seen=6, used=1),)) == [1]

    def test_who_has_stopped_is_not_counted(self) -> None:
        story = Story()
        story.lives("ab", capacity=SIXTEEN_KIB)
        story.now_ms += 300_000
        story.lives("b", capacity=SIXTEEN_KIB)
        found = planned(growth(), story)
        assert (found.producers, [c.instance_id for c in found.capped]) == (1, ["b"])

    def test_a_lease_that_leaves_topics_out_tells_a_bound_only(self) -> None:
        story = Story()
        story.lives("a", capacity=SIXTEEN_KIB, topics_left_out=3)
        assert [c.partial for c in planned(growth(), story).capped] == [True]

    def test_nobody_is_capped_by_fewer_partitions(self) -> None:
        story = Story()
        story.lives("a", capacity=Capacity(max_partitions=1))
        assert planned(shrinking(), story).capped == ()


def test_who_has_rejected_such_a_change_before_is_named() -> None:
    story = Story()
    story.lives("ab")
    story.request(growth())
    story.says("b", Status.REJECTED)
    story.command(Verb.CANCEL)
    found = planned(growth(), story)
    assert (found.rejecting, found.verdict) == (("b",), Verdict.WOULD_CAP)
    assert planned(shrinking(), story).rejecting == ()


class TestGroups:
    def safety(self, spec: Spec, hooked: int = 0, group: Group = BILLING) -> Safety:
        story = Story()
        story.lives("xyz"[:hooked], role=Role.CONSUMER, group="billing")
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
        story.lives("xy", role=Role.CONSUMER, group="billing")
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

    @pytest.mark.parametrize("spec", [shrinking(), draining()])
    def test_where_no_partition_is_new_nobody_misses_any(self, spec: Spec) -> None:
        assert self.safety(spec) is Safety.NOTHING_NEW

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

    def test_pinned_keys_do_not_move_by_growth(self) -> None:
        (keys,) = planned(growth(), keys=self.found("murmur2", partitions=4)).keys or ()
        assert keys.moves is None
        assert "pinned" in keys.why

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

    def test_of_partitions_that_are_left_it_depends_on_the_writer(self) -> None:
        (keys,) = planned(draining(), keys=self.found("murmur2")).keys or ()
        assert keys.moves is None

    def test_nobody_has_looked(self) -> None:
        assert planned(growth()).keys is None


class TestTime:
    def history(self, *seconds: float) -> Story:
        story = Story()
        story.lives("ab")
        for number, took in enumerate(seconds):
            id_ = f"old-{number}"
            story.request(growth(from_count=6 + number, to_count=7 + number, required_groups=()), id_)
            known = story.ledger.changes[id_]
            story.ledger.take_change(_finished(known, story.now_ms, took))
            story.sees(count=7 + number)
        return story

    def test_median_and_nine_of_ten(self) -> None:
        story = self.history(*(float(n) for n in range(1, 12)))
        spec = growth(from_count=17, to_count=18)
        assert planned(spec, story).expected == Expected(changes=11, median_s=6.0, most_s=10.0)

    def test_of_one(self) -> None:
        assert planned(growth(from_count=7), self.history(4.0)).expected == Expected(
            changes=1, median_s=4.0, most_s=4.0
        )

    def test_other_kinds_and_gates_took_another_time(self) -> None:
        story = self.history(4.0)
        assert planned(gated(from_count=7), story).expected is None
        assert planned(shrinking(from_count=7), story).expected is None

    def test_what_failed_took_no_time(self) -> None:
        story = Story()
        story.request(growth())
        story.command(Verb.CANCEL)
        assert story.change.state is State.CANCELLED
        assert planned(growth(), story).expected is None


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


def test_the_gravest_verdict_wins() -> None:
    story = grown(growth())
    story.lives("c", capacity=SIXTEEN_KIB)
    assert planned(growth(), story, [BILLING]).verdict is Verdict.BLOCKED
    story = Story()
    story.lives("c", capacity=SIXTEEN_KIB)
    assert planned(growth(), story, [BILLING]).verdict is Verdict.WOULD_CAP


def test_leases_of_another_cluster_do_not_count() -> None:
    story = Story()
    story.lives("a", cluster_id="another", capacity=SIXTEEN_KIB)
    assert planned(growth(), story).producers == 0


def test_a_broker_has_no_topic_to_look_at() -> None:
    story = Story()
    story.lives("a")
    spec = draining(topic=None, topic_id=None, partitions=frozenset(), broker=2)
    found = planned(spec, story, groups=None)
    assert (found.verdict, found.producers) == (Verdict.SAFE, 1)
    assert Kind.OFFLINE is found.spec.kind
