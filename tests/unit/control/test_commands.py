"""Commands: what they do, that they do it once, and that a refusal is kept with its reason and a cure."""

from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.control.changes.commands import (
    KEPT_REFUSALS,
    RETIRED_AFTER_MS,
    inverse,
    may_be_forgotten,
    reply_to,
    unasked,
)
from kafka_partition_events.control.changes.evidence import ClusterView
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.records import Approval, Command, Given, Order, Refusal
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import (
    Execute,
    Gate,
    GateRule,
    Kind,
    Reason,
    State,
    Status,
    Verb,
)
from kafka_partition_events.errors import ConfigurationError
from tests.control_kit import NEW, ONE, TOPIC_ID, Story, draining, gated, grown, growth, shrinking


class TestARequest:
    def test_that_comes_twice_is_one_change(self) -> None:
        story = Story()
        first = story.request(growth())
        assert story.request(growth()) is first
        assert not story.refused

    def test_of_another_change_under_the_same_id_is_refused_and_the_first_one_knows(self) -> None:
        story = Story()
        story.request(growth())
        story.request(growth(to_count=24), actor="bob")
        assert story.change.spec == growth()
        (refusal,) = story.change.refusals
        assert (refusal.reason, refusal.actor) == (Reason.ANOTHER_SPEC, "bob")

    @pytest.mark.parametrize(
        ("seen", "reason"),
        [
            ({"count": 7}, Reason.CONFLICT),
            ({"count": 12}, Reason.CONFLICT),
            ({"count": None}, Reason.TOPIC_UNKNOWN),
            ({"topic_id": "another"}, Reason.TOPIC_ID_CHANGED),
            ({"blind": True}, Reason.CLUSTER_UNKNOWN),
        ],
    )
    def test_that_does_not_begin_with_what_there_is_is_rejected(
        self, seen: dict[str, object], reason: Reason
    ) -> None:
        story = Story()
        story.sees(**seen)
        story.request(gated())
        assert (story.change.state, story.change.reason) == (State.REJECTED, reason)
        assert story.change.order == Order()
        assert story.refused[0].detail

    def test_of_partitions_that_the_topic_does_not_have_is_rejected(self) -> None:
        story = Story()
        story.request(draining(partitions=frozenset({5, 6})))
        assert story.change.reason is Reason.CONFLICT

    def test_that_would_leave_producers_no_partition_is_rejected(self) -> None:
        story = Story()
        story.request(draining(partitions=frozenset(range(6))))
        assert (story.change.state, story.change.reason) == (State.REJECTED, Reason.CONFLICT)
        assert "no partition of topic orders would be left to producers" in story.change.detail

    def test_is_rejected_if_what_it_leaves_is_offline_by_an_earlier_one(self) -> None:
        story = Story()
        story.request(draining(partitions=frozenset({0, 1})))
        story.tick()
        story.command(Verb.FINISH)
        assert story.change.state is State.PARTIALLY_CONVERGED
        story.request(shrinking(to_count=2), change_id="chg-2")
        story.request(draining(partitions=frozenset({2, 3, 4, 5})), change_id="chg-3")
        second, third = (story.ledger.changes[id_] for id_ in ("chg-2", "chg-3"))
        assert "request --online for one of them" in second.detail
        assert (second.reason, third.reason) == (Reason.CONFLICT, Reason.CONFLICT)

    def test_is_rejected_while_another_change_of_the_topic_is_open(self) -> None:
        story = Story()
        story.request(gated())
        story.request(growth(to_count=24), change_id="chg-2")
        second = story.ledger.changes["chg-2"]
        assert (second.state, second.reason) == (State.REJECTED, Reason.ANOTHER_CHANGE_OPEN)
        assert ONE in second.detail

    def test_that_is_rejected_gives_no_orders_ever(self) -> None:
        story = Story()
        story.request(gated())
        story.request(growth(to_count=24), change_id="chg-2")
        story.command(Verb.CANCEL)
        story.request(growth(), change_id="chg-3")
        assert story.ledger.changes["chg-3"].before == Order()

    def test_that_nobody_took_up_in_time_is_rejected(self) -> None:
        story = Story()
        command = Command(change_id=ONE, verb=Verb.REQUEST, actor="alice", spec=growth(), ttl_s=900)
        asked_ms = story.now_ms
        story.now_ms += 900_001
        story.deliver(command, asked_ms)
        assert (story.change.state, story.change.reason) == (State.REJECTED, Reason.COMMAND_EXPIRED)

    def test_without_a_change_to_make_leads_to_none(self) -> None:
        story = Story()
        assert story.command(Verb.REQUEST) is None
        assert story.request(growth(kind=Kind.OBSERVE)) is None
        assert len(story.refused) == 2


class TestApproval:
    def test_by_a_second_person_releases_the_change(self) -> None:
        story = Story()
        story.request(gated(needs_approval=True))
        assert story.change.order == Order()
        story.approve("bob")
        assert (story.change.state, story.change.approved_by) == (State.APPROVED, "bob")
        assert story.change.order == Order(limit=6)

    def test_by_who_has_requested_it_counts_for_nothing(self) -> None:
        story = Story()
        story.request(gated(needs_approval=True))
        story.approve("alice")
        assert story.change.state is State.REQUESTED
        story.approve("bob")
        assert story.change.approved_by == "bob"

    def test_of_another_change_than_it_is_counts_for_nothing(self) -> None:
        story = Story()
        story.request(gated(needs_approval=True))
        story.approve("bob", spec=growth(to_count=7))
        assert story.change.state is State.REQUESTED

    def test_is_waited_for_before_routes_change(self) -> None:
        story = Story()
        story.request(shrinking(needs_approval=True))
        assert story.tick(60) is State.REQUESTED
        story.approve("bob")
        assert story.tick() is State.CONVERGING

    def test_comes_too_late_after_the_topic_has_grown(self) -> None:
        story = grown(gated(needs_approval=True))
        story.approve("bob")
        assert (story.change.state, story.change.approved_by) == (story.path[-1], None)

    def test_that_comes_again_says_nothing_new(self) -> None:
        story = Story()
        story.request(growth(needs_approval=True))
        story.approve("bob")
        revision = story.change.revision
        story.approve("carol")
        assert (story.change.revision, story.change.approved_by) == (revision, "bob")

    def test_is_forgotten_with_what_it_was_for(self) -> None:
        story = Story()
        story.request(growth(needs_approval=True))
        story.ledger.take_approval(Approval(change_id="chg-2", spec=growth(), actor="bob"))
        story.approve("alice")
        assert story.ledger.approvals.keys() == {ONE, "chg-2"}
        story.command(Verb.CANCEL)
        story.ledger.drop_finished()
        story.ledger.take_tombstone("chg-2")
        assert not story.ledger.approvals


class TestCancelAndRollback:
    def test_cancel_ends_what_has_not_happened_and_leaves_nothing_behind(self) -> None:
        story = Story()
        story.request(gated())
        story.command(Verb.CANCEL, "bob")
        assert story.change.state is State.CANCELLED
        assert story.change.order == Order()

    def test_cancel_is_refused_after_that(self) -> None:
        story = grown(gated())
        story.command(Verb.CANCEL)
        assert story.change.state is State.GATED
        assert "roll it back" in story.change.refusals[-1].detail

    def test_what_is_finished_is_undone_by_its_inverse(self) -> None:
        story = grown(growth(required_groups=()))
        story.says("ab", Status.APPLIED)
        assert story.tick() is State.CONVERGED
        cure = f"{ONE} is converged; request its inverse (kpe change request --inverse-of {ONE})"
        for verb in (Verb.CANCEL, Verb.ROLLBACK):
            story.command(verb)
            assert story.change.refusals[-1].detail == cure

    def test_rollback_lets_producers_go_back_to_the_partitions_of_before(self) -> None:
        story = grown(growth(required_groups=()))
        story.command(Verb.ROLLBACK)
        assert story.change.state is State.ROLLING_BACK
        assert story.change.order == Order(limit=6)
        story.says("a", Status.ROLLED_BACK)
        assert story.tick() is State.ROLLING_BACK
        story.says("b", Status.ROLLED_BACK)
        assert story.tick() is State.ROLLED_BACK

    def test_an_answer_to_the_change_is_none_to_its_rollback(self) -> None:
        story = grown(growth(required_groups=("billing",)))
        story.says("ab", Status.APPLIED)
        story.command(Verb.ROLLBACK)
        assert story.tick() is State.ROLLING_BACK
        assert story.change.totals.pending == 2

    def test_rollback_of_a_gate_keeps_it_shut(self) -> None:
        story = grown(gated())
        story.command(Verb.ROLLBACK)
        story.probed("billing", assigned=NEW, positioned=NEW)
        story.tick(10_000)
        assert story.change.order == Order(limit=6)
        assert not story.change.holds

    def test_rollback_of_a_decrease_lifts_it(self) -> None:
        story = Story()
        story.lives("a")
        story.request(shrinking(required_groups=("billing",)))
        story.tick()
        story.command(Verb.ROLLBACK)
        assert story.change.order == Order()

    @pytest.mark.parametrize("state", [State.REQUESTED, State.CONVERGED])
    def test_rollback_is_refused_before_and_after(self, state: State) -> None:
        story = Story() if state is State.REQUESTED else grown(growth(required_groups=()))
        if state is State.REQUESTED:
            story.request(growth())
        else:
            story.says("ab", Status.APPLIED)
            story.tick()
        story.command(Verb.ROLLBACK)
        assert story.change.state is state
        assert story.change.refusals[-1].reason is Reason.WRONG_STATE


class TestForce:
    def test_opens_a_gate_without_evidence_and_says_who_did(self) -> None:
        story = grown(gated())
        story.command(Verb.OPEN_GATE, "bob")
        assert (story.change.state, story.change.gate) == (State.CONVERGING, Gate.OPEN)
        assert story.change.opened_by == "bob"
        assert story.change.order == Order()

    @pytest.mark.parametrize("seen", [{"count": 15}, {"blind": True, "count": None}], ids=["more", "unseen"])
    def test_opens_it_for_what_the_change_is_about_and_nothing_beyond(self, seen: dict[str, object]) -> None:
        story = grown(gated())
        story.sees(**seen)
        story.command(Verb.OPEN_GATE)
        assert story.change.order == Order(limit=12)

    def test_ends_a_change_that_somebody_does_not_follow(self) -> None:
        story = grown(growth(required_groups=()))
        story.command(Verb.FINISH, "bob")
        assert story.change.state is State.PARTIALLY_CONVERGED

    def test_that_is_read_twice_is_one(self) -> None:
        story = grown(gated())
        command = Command(change_id=ONE, verb=Verb.OPEN_GATE, actor="bob")
        for _ in range(2):
            story.deliver(command, story.now_ms, offset=7)
        assert story.change.state is State.CONVERGING
        assert not story.refused

    def test_ends_a_rollback_that_somebody_does_not_follow(self) -> None:
        story = grown(growth(required_groups=()))
        story.command(Verb.ROLLBACK)
        story.command(Verb.FINISH)
        assert story.change.state is State.ROLLED_BACK

    @pytest.mark.parametrize("verb", [Verb.OPEN_GATE, Verb.FINISH])
    def test_is_refused_before_anything_has_happened(self, verb: Verb) -> None:
        story = Story()
        story.request(growth())
        story.command(verb)
        assert story.change.refusals[-1].reason is Reason.WRONG_STATE

    def test_that_was_to_open_a_gate_does_not_end_a_change_whose_gate_has_opened_meanwhile(self) -> None:
        story = grown(gated())
        story.probed("billing", positioned=NEW)
        assert story.tick() is State.CONVERGING
        story.command(Verb.OPEN_GATE)
        assert story.change.state is State.CONVERGING
        assert "kpe change force --finish" in story.change.refusals[-1].detail

    def test_that_was_to_end_a_change_does_not_open_its_gate(self) -> None:
        story = grown(gated())
        story.command(Verb.FINISH)
        assert story.change.gate is Gate.HELD
        assert "--open-gate" in story.change.refusals[-1].detail


class TestWhichCommandItIs:
    def test_one_of_the_same_millisecond_is_another_one(self) -> None:
        story = Story()
        story.request(growth(needs_approval=True))
        for verb in (Verb.ROLLBACK, Verb.CANCEL):
            story.deliver(Command(change_id=ONE, verb=verb, actor="bob"), story.now_ms)
        assert story.change.state is State.CANCELLED

    def test_one_that_a_leader_with_a_slow_clock_has_appended_is_another_one(self) -> None:
        story = Story()
        story.request(growth(needs_approval=True))
        story.command(Verb.ROLLBACK, "bob")
        cancel = Command(change_id=ONE, verb=Verb.CANCEL, actor="carol")
        story.deliver(cancel, story.now_ms - 1_000, offset=9)
        assert story.change.state is State.CANCELLED
        revision = story.change.revision
        story.deliver(cancel, story.now_ms - 1_000, offset=9)
        assert story.change.revision == revision

    def test_one_of_a_topic_that_was_created_anew_is_another_one(self) -> None:
        story = Story()
        story.request(growth())
        story.deliver(Command(change_id=ONE, verb=Verb.CANCEL, actor="bob"), story.now_ms + 5, offset=0)
        assert story.change.state is State.CANCELLED

    def test_that_it_was_refused_is_not_forgotten_where_others_were_refused_after_it(self) -> None:
        story = grown(growth())
        cancel = Given(Command(change_id=ONE, verb=Verb.CANCEL, actor="carol"), 5, story.now_ms)
        story.deliver(cancel.command, cancel.at_ms, cancel.offset)
        for offset in range(6, 6 + KEPT_REFUSALS):
            story.deliver(cancel.command, story.now_ms, offset)
        assert reply_to(cancel, story.change) is None

    def test_who_gives_it_is_told_of_nothing_else(self) -> None:
        story = Story()
        story.request(growth(needs_approval=True))
        story.command(Verb.ROLLBACK, "bob")
        cancel = Given(Command(change_id=ONE, verb=Verb.CANCEL, actor="carol"), 2, story.now_ms - 1_000)
        assert reply_to(cancel, story.change) is None
        story.deliver(cancel.command, cancel.at_ms, cancel.offset)
        answer = reply_to(cancel, story.change)
        assert answer is not None
        assert (answer.change, answer.refusal) == (story.change, None)


class TestPolicy:
    def refusal(self, spec: Spec, **policy: Any) -> Refusal | None:
        story = Story(policy=Policy(**policy))
        story.request(spec)
        return story.refused[0] if story.refused else None

    @pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "kpe.commands"])
    def test_what_kafka_and_change_control_stand_on_is_nobodys_to_change(self, topic: str) -> None:
        refusal = self.refusal(growth(topic=topic))
        assert refusal is not None
        assert refusal.reason is Reason.NOT_ALLOWED

    @pytest.mark.parametrize(
        ("policy", "told"),
        [
            ({"may_grow": "shop[.].*"}, "policy.may_grow"),
            ({"max_partitions": 11}, "policy.max_partitions"),
            ({"max_factor": 1.5}, "policy.max_factor"),
        ],
    )
    def test_a_growth_that_it_forbids_is_refused_with_the_name_of_the_rule(
        self, policy: dict[str, Any], told: str
    ) -> None:
        refusal = self.refusal(growth(execute=Execute.TRACKER), **policy)
        assert refusal is not None
        assert (refusal.reason, told in refusal.detail) == (Reason.NOT_ALLOWED, True)

    def test_a_growth_within_it_is_not(self) -> None:
        policy = {"may_grow": "ord.*", "max_partitions": 12, "max_factor": 2.0}
        assert self.refusal(growth(execute=Execute.TRACKER), **policy) is None

    def test_whom_the_tracker_may_not_grow_somebody_else_may(self) -> None:
        assert self.refusal(growth(), may_grow="shop[.].*") is None

    def test_it_may_ask_for_a_second_person_whatever_the_request_says(self) -> None:
        story = Story(policy=Policy(approval="orders"))
        story.request(gated())
        assert not story.change.released
        story.approve("alice")
        assert not story.change.released
        story.approve("bob")
        assert story.change.released


class TestRefusals:
    def test_a_command_for_an_unknown_change_says_so(self) -> None:
        story = Story()
        assert story.command(Verb.CANCEL) is None
        assert story.refused[0].reason is Reason.NO_SUCH_CHANGE

    def test_a_command_that_comes_too_late_is_refused(self) -> None:
        story = Story()
        story.request(growth())
        asked_ms = story.now_ms + 1
        story.now_ms += 900_002
        story.deliver(Command(change_id=ONE, verb=Verb.CANCEL, actor="bob"), asked_ms)
        assert story.change.state is State.REQUESTED
        assert story.change.refusals[-1].reason is Reason.COMMAND_EXPIRED

    def test_only_the_last_ones_are_kept(self) -> None:
        story = grown(growth())
        for person in range(KEPT_REFUSALS + 3):
            story.command(Verb.CANCEL, str(person))
        assert [r.actor for r in story.change.refusals] == [str(n) for n in range(3, KEPT_REFUSALS + 3)]

    def test_each_is_a_record_of_its_own(self) -> None:
        story = grown(growth())
        before = story.change.revision
        story.command(Verb.CANCEL)
        assert story.change.revision == before + 1


class TestGrowthThatNobodyAskedFor:
    seen = growth(kind=Kind.OBSERVE)

    def test_is_followed_from_the_moment_that_it_was_seen(self) -> None:
        change = unasked(self.seen, "seen-1", [], epoch=3, now_ms=5_000)
        assert change is not None
        assert (change.state, change.observed_ms, change.deadline_ms) == (State.OBSERVED, 5_000, 605_000)
        assert change.order == Order()

    def test_is_none_if_a_change_explains_it_or_waits_for_its_own(self) -> None:
        story = grown(growth(required_groups=()))
        other = evolve(self.seen, to_count=24)
        assert unasked(other, "seen-1", [story.change], epoch=3, now_ms=5_000) is None
        story.says("ab", Status.APPLIED)
        assert story.tick() is State.CONVERGED
        assert unasked(self.seen, "seen-1", [story.change], epoch=3, now_ms=5_000) is None
        assert unasked(other, "seen-1", [story.change], epoch=3, now_ms=5_000) is not None

    def test_leaves_a_limit_that_stands_as_it_is(self) -> None:
        story = Story()
        story.lives("a")
        story.request(shrinking())
        story.says("a", Status.APPLIED)
        assert story.tick() is State.CONVERGED
        change = unasked(self.seen, "seen-1", [story.change], epoch=3, now_ms=5_000)
        assert change is not None
        assert change.order == Order(limit=4)


class TestTheInverse:
    def test_of_growth_is_a_decrease_and_of_that_gated_growth(self) -> None:
        change = evolve(grown(gated()).change, state=State.CONVERGED)
        down = inverse(change)
        assert (down.kind, down.from_count, down.to_count) == (Kind.DECREASE, 12, 6)
        assert down.gate is GateRule.NONE
        up = inverse(evolve(change, spec=down))
        assert (up.kind, up.from_count, up.to_count) == (Kind.INCREASE, 6, 12)
        assert up.gate is GateRule.CONSUMERS_FIRST

    def test_of_offline_is_online(self) -> None:
        story = Story()
        story.request(draining())
        change = evolve(story.change, state=State.PARTIALLY_CONVERGED)
        assert inverse(change) == draining(kind=Kind.ONLINE)

    @pytest.mark.parametrize(
        ("state", "cure"),
        [
            (State.REQUESTED, r"cancel it \(kpe change cancel\)"),
            (State.OVERDUE, r"roll it back \(kpe change rollback\)"),
            (State.CANCELLED, "there is nothing to undo"),
            (State.ROLLED_BACK, "there is nothing to undo"),
        ],
    )
    def test_there_is_none_of_what_has_come_to_nothing_or_is_open(self, state: State, cure: str) -> None:
        change = evolve(grown(growth()).change, state=state)
        with pytest.raises(ConfigurationError, match=f"{ONE} is {state}; {cure}"):
            inverse(change)

    def test_there_is_none_of_what_nobody_asked_for(self) -> None:
        change = unasked(growth(kind=Kind.OBSERVE), ONE, [], epoch=1, now_ms=1)
        assert change is not None
        with pytest.raises(ConfigurationError, match="undone"):
            inverse(change)


class TestForgetting:
    def test_what_is_over_for_long_and_gives_no_order_may_be_forgotten(self) -> None:
        story = grown(growth(required_groups=()))
        assert not may_be_forgotten(story.change, [story.change], story.now_ms + 2 * RETIRED_AFTER_MS)
        story.says("ab", Status.APPLIED)
        story.tick()
        assert not may_be_forgotten(story.change, [story.change], story.now_ms + RETIRED_AFTER_MS - 1)
        assert may_be_forgotten(story.change, [story.change], story.now_ms + RETIRED_AFTER_MS)

    def test_a_limit_that_stands_is_kept_until_another_change_has_taken_its_place(self) -> None:
        story = Story()
        story.lives("a")
        story.request(shrinking())
        story.says("a", Status.APPLIED)
        story.tick()
        much_later = story.now_ms + 2 * RETIRED_AFTER_MS
        assert not may_be_forgotten(story.change, [story.change], much_later)
        story.request(growth(from_count=4, to_count=6), change_id="chg-2")
        both = list(story.ledger.changes.values())
        assert may_be_forgotten(story.change, both, much_later)


def test_a_topic_without_an_id_can_be_changed_too() -> None:
    story = Story(cluster=ClusterView(count=6))
    story.request(growth(topic_id=None))
    assert story.change.state is State.REQUESTED
    assert story.cluster.topic_id != TOPIC_ID
