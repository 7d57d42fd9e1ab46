"""What a producer does about a change: holds early, opens when told to or by its own clock, and says so."""

import pytest
from attrs import evolve

from kafka_partition_events.control.agents.producer_duties import (
    Statement,
    Watch,
    answer,
    opens_itself_at,
    order_for,
)
from kafka_partition_events.control.protocol.records import Change, Order, TopicUse
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Kind, OnDeadline, Status, Verb
from tests.control_kit import NEW, Story, draining, gated, grown, growth, shrinking

SIX, TWELVE = TopicUse(topic="orders", seen=6, used=6), TopicUse(topic="orders", seen=12, used=12)
NEVER = float("inf")


def requested(spec: Spec) -> Change:
    story = Story()
    story.request(spec)
    return story.change


class TestTheGate:
    def test_is_held_from_the_request_on_before_there_is_anything_to_hold_back_from(self) -> None:
        assert order_for(requested(gated()), Watch(), 6, now=0.0) == Order(limit=6)

    def test_is_not_held_without_the_approval_that_is_needed(self) -> None:
        change = requested(gated(needs_approval=True))
        assert order_for(change, Watch(), 6, now=0.0) == Order()
        assert not change.holds

    def test_opens_when_the_change_says_so(self) -> None:
        story = grown(gated())
        story.probed("billing", assigned=NEW, positioned=NEW)
        story.tick()
        assert order_for(story.change, Watch(0.0), 12, now=1.0) == Order()

    def test_opens_by_itself_a_deadline_after_the_growth_was_first_known(self) -> None:
        change = requested(gated(deadline_s=60))
        watch = Watch().looked(change, seen=6, now=0.0)
        assert opens_itself_at(change, watch) == NEVER
        watch = watch.looked(change, seen=12, now=1_000.0).looked(change, seen=12, now=1_030.0)
        assert opens_itself_at(change, watch) == 1_060.0
        assert order_for(change, watch, 12, now=1_059.9) == Order(limit=6)
        assert order_for(change, watch, 12, now=1_060.0) == Order()

    def test_knows_of_growth_from_the_change_too_before_its_own_poller_does(self) -> None:
        watch = Watch().looked(grown(gated()).change, seen=6, now=5.0)
        assert watch.grown_at == 5.0

    def test_never_opens_by_itself_if_that_was_asked_for(self) -> None:
        change = grown(gated(gate_on_deadline=OnDeadline.HOLD)).change
        assert order_for(change, Watch(0.0), 12, now=1e9) == Order(limit=6)

    def test_does_not_open_by_itself_what_is_rolled_back(self) -> None:
        story = grown(gated())
        story.command(Verb.ROLLBACK)
        assert order_for(story.change, Watch(0.0), 12, now=1e9) == Order(limit=6)

    def test_opens_to_what_was_asked_for_even_if_the_topic_has_grown_beyond(self) -> None:
        change = grown(gated()).change
        assert order_for(change, Watch(0.0), 24, now=1e9) == Order(limit=12)


class TestWhatItSays:
    def says(self, change: Change, use: TopicUse, adopted: Order | None = None) -> Statement:
        order = order_for(change, Watch(), use.seen, now=0.0)
        return answer(change, order, order if adopted is None else adopted, use)

    def test_held_as_soon_as_its_routes_are_and_not_before(self) -> None:
        change = requested(gated())
        assert self.says(change, SIX, adopted=Order()).status is Status.OBSERVED
        assert self.says(change, SIX).status is Status.HELD

    def test_held_while_the_gate_is(self) -> None:
        assert self.says(grown(gated()).change, evolve(TWELVE, used=6)).status is Status.HELD

    def test_observed_as_long_as_it_does_not_see_the_growth_itself(self) -> None:
        assert self.says(grown(growth()).change, SIX).status is Status.OBSERVED

    def test_applied_or_capped_when_it_does(self) -> None:
        change = grown(growth()).change
        assert self.says(change, TWELVE) == Statement(Status.APPLIED)
        assert self.says(change, evolve(TWELVE, used=4)) == Statement(Status.CAPPED, "buffer_limit")

    @pytest.mark.parametrize("spec", [shrinking(), draining(), draining(kind=Kind.ONLINE)])
    def test_applied_when_it_has_left_partitions_or_has_come_back(self, spec: Spec) -> None:
        story = Story()
        story.request(spec)
        waiting = story.change
        story.tick()
        assert self.says(waiting, SIX).status is Status.OBSERVED
        assert self.says(story.change, SIX).status is Status.APPLIED

    def test_rolled_back_when_it_is(self) -> None:
        story = grown(growth())
        story.command(Verb.ROLLBACK)
        assert self.says(story.change, evolve(TWELVE, used=6)).status is Status.ROLLED_BACK
        assert self.says(story.change, TWELVE, adopted=Order()).status is Status.OBSERVED


class TestAPolicyThatForbidsTheChange:
    def test_keeps_the_partitions_of_before(self) -> None:
        for spec, order in ((growth(), Order(limit=6)), (shrinking(), Order())):
            change = requested(spec)
            assert order_for(change, Watch(0.0), 12, now=1e9, rejects=True) == order
            assert answer(change, order, order, SIX, rejects=True).status is Status.REJECTED

    def test_does_not_forbid_to_go_back(self) -> None:
        story = grown(growth())
        story.command(Verb.ROLLBACK)
        order = order_for(story.change, Watch(), 12, now=0.0, rejects=True)
        assert answer(story.change, order, order, SIX, rejects=True).status is Status.ROLLED_BACK
