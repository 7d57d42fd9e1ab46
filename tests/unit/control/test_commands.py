"""Commands: what they do, that they do it once, and that a refusal is kept with its reason and a cure."""

from typing import Any

import pytest

from kafka_partition_events.control.changes.commands import (
    MOST_OPEN,
    RETIRED_AFTER_MS,
    may_be_forgotten,
    reply_to,
)
from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.codec import encode
from kafka_partition_events.control.protocol.records import MOST_ANSWERS, Answer, Command, Given
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from tests.control_kit import ONE, UNREAD, Story, gated, grown, growth


class TestARequest:
    def test_that_comes_twice_is_one_change(self, story: Story) -> None:
        first = story.request(growth())
        assert story.request(growth()) is first
        assert not story.refused

    def test_of_another_change_under_the_same_id_is_refused_and_the_first_one_knows(self) -> None:
        story = Story()
        story.request(growth())
        story.request(growth(to_count=24), actor="bob")
        assert story.change.spec == growth()
        _, refusal = story.change.answers
        assert (refusal.refused, refusal.actor) == (True, "bob")
        assert "another change already" in refusal.detail

    @pytest.mark.parametrize(
        ("seen", "why"),
        [
            ({"count": 7}, "topic orders has 7 partitions, not 6"),
            ({"count": 12}, "topic orders has 12 partitions, not 6"),
            ({"count": None}, "there is no topic orders"),
            ({"topic_id": "another"}, "topic orders has the id another"),
            ({"blind": True}, "the tracker does not see topic orders of cluster c-1 now"),
        ],
    )
    def test_that_does_not_begin_with_what_there_is_is_rejected(
        self, seen: dict[str, object], why: str, story: Story
    ) -> None:
        story.sees(**seen)
        story.request(gated())
        assert (story.change.state, story.change.answers[-1].refused) == (State.REJECTED, True)
        assert not story.change.holds
        assert story.refused[0].detail.startswith(why)

    def test_that_nobody_took_up_in_time_is_rejected(self, story: Story) -> None:
        command = Command(change_id=ONE, verb=Verb.REQUEST, actor="alice", spec=growth())
        asked_ms = story.now_ms
        story.now_ms += 900_001
        story.deliver(command, asked_ms)
        assert story.change.state is State.REJECTED
        assert "no tracker took it up within 900 s" in story.change.detail


class TestCancel:
    def test_cancel_ends_what_has_not_happened_and_leaves_nothing_behind(self, story: Story) -> None:
        story.request(gated())
        story.command(Verb.CANCEL, "bob")
        assert story.change.state is State.CANCELLED
        assert not story.change.holds

    def test_it_ends_the_waiting_for_what_is_overdue_and_opens_no_gate(self) -> None:
        story = grown(gated())
        story.command(Verb.CANCEL)
        assert (story.change.state, story.change.holds) == (State.GATED, True)
        assert "it waits for who follows until its deadline" in story.change.answers[-1].detail
        story.tick(500)
        story.lives("ab")
        assert story.tick(100) is State.OVERDUE
        story.command(Verb.CANCEL, "bob")
        assert (story.change.state, story.change.opened_by) == (State.PARTIALLY_CONVERGED, "deadline")

    @pytest.mark.parametrize("open_", [True, False])
    def test_one_with_a_long_reason_is_answered(self, open_: bool, story: Story) -> None:
        story.request(growth())
        story.now_ms += 0 if open_ else 3_600_000
        story.tick()
        story.command(Verb.CANCEL, actor=1_990 * "b", reason=1_990 * "r")
        assert story.change.state is (State.CANCELLED if open_ else State.EXPIRED)
        assert encode(story.change)

    def test_of_a_change_with_a_long_id_is_answered(self) -> None:
        story, id_ = Story(), 1_990 * "i"
        for _ in range(2):
            story.request(growth(topic_id=1_990 * "t"), change_id=id_)
        story.command(Verb.CANCEL, change_id=id_)
        assert encode(story.ledger.changes[id_])


class TestPolicy:
    def refusal(self, spec: Spec, **policy: Any) -> Answer | None:
        story = Story(policy=Policy(**policy))
        story.request(spec)
        return story.refused[0] if story.refused else None

    def test_whom_the_tracker_may_not_grow_somebody_else_may(self) -> None:
        refusal = self.refusal(growth(execute=True), may_grow="shop[.].*")
        assert refusal is not None
        assert "the tracker may grow shop[.].*, not orders" in refusal.detail
        assert self.refusal(growth(), may_grow="shop[.].*") is None

    def test_there_is_a_most_of_partitions_and_of_open_changes(self) -> None:
        refusal = self.refusal(growth(), max_partitions=11)
        assert refusal is not None
        assert "12 partitions are more than 11" in refusal.detail
        story = Story()
        story.request(growth())
        story.ledger.changes |= {f"chg-{n}": story.change for n in range(MOST_OPEN)}
        story.request(growth(topic="other"), change_id="more")
        assert "changes are open; finish some" in story.refused[0].detail


class TestAnswers:
    def test_a_command_for_an_unknown_change_says_so(self, story: Story) -> None:
        assert story.command(Verb.CANCEL) is None
        assert "there is no change" in story.refused[0].detail

    def test_only_the_last_ones_are_kept_and_none_is_made_up(self) -> None:
        story = grown(growth())
        first = Given(Command(change_id=ONE, verb=Verb.CANCEL, actor="carol"), 5, story.now_ms)
        story.deliver(first.command, first.at_ms, first.offset)
        for person in range(MOST_ANSWERS):
            story.command(Verb.CANCEL, str(person))
        assert [r.actor for r in story.change.answers] == [str(n) for n in range(MOST_ANSWERS)]
        assert reply_to(first, story.change) is None


def test_what_is_over_for_long_may_be_forgotten() -> None:
    story = grown(growth(), cluster=UNREAD)
    assert not may_be_forgotten(story.change, story.now_ms + 2 * RETIRED_AFTER_MS)
    story.says("ab", Status.APPLIED)
    story.tick()
    assert not may_be_forgotten(story.change, story.now_ms + RETIRED_AFTER_MS - 1)
    assert may_be_forgotten(story.change, story.now_ms + RETIRED_AFTER_MS)
