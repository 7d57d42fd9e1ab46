"""Whatever happens to a change: nothing leaves a final state, and no gate opens without a reason."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_partition_events.control.agents.producer_duties import ProducerDuties
from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.changes.transitions import is_due
from kafka_partition_events.control.protocol.codec import decode, encode
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, NEW, ONE, TOPIC, Story, gated, growth, lease
from tests.property.examples import scaled

NAMES = st.sampled_from(["a", "b", "ab", "c"])
specs = st.sampled_from([growth(), gated(execute=True), gated(execute=True), gated(deadline_s=120.0)])


class OneChange(RuleBasedStateMachine):
    """Instances, groups, people and the cluster do what they like; the tracker looks now and then."""

    @initialize(spec=specs)
    def start(self, spec: Spec) -> None:
        self.story = Story()
        self.story.lives("ab")
        self.story.request(spec)
        self.duties = ProducerDuties(lease=lease("z"))
        self.knew_at: int | None = None

    # -- what happens --------------------------------------------------------------------------------

    @rule(count=st.sampled_from([6, 9, 12, 12, 24]))
    def grow(self, count: int) -> None:
        self.story.sees(count=max(count, self.story.cluster.count or 0))

    @rule(topic_id=st.sampled_from(["topic-id-1", "topic-id-2", None]), count=st.sampled_from([None, 6, 12]))
    def create_anew(self, topic_id: str | None, count: int | None) -> None:
        self.story.sees(topic_id=topic_id, count=count)

    @rule(blind=st.booleans(), readers=st.sampled_from([None, frozenset(), frozenset({"billing"})]))
    def see(self, blind: bool, readers: frozenset[str] | None) -> None:
        self.story.sees(blind=blind, readers=readers)

    @rule(names=NAMES, seen=st.sampled_from([6, 12]), ttl_s=st.sampled_from([0.0, 90.0]))
    def renew(self, names: str, seen: int, ttl_s: float) -> None:
        self.story.lives(names, seen, ttl_s=ttl_s)

    @rule(names=NAMES, status=st.sampled_from(Status))
    def say(self, names: str, status: Status) -> None:
        self.story.says(names, status)

    @rule(positioned=st.sampled_from([frozenset(), NEW - {7}, NEW]))
    def probe(self, positioned: frozenset[int]) -> None:
        self.story.probed("billing", positioned)

    @rule(verb=st.sampled_from([v for v in Verb if v is not Verb.REQUEST]), actor=st.sampled_from("xy"))
    def command(self, verb: Verb, actor: str) -> None:
        was = self.story.change
        self.story.command(verb, "alice" if actor == "x" else actor)
        self.check(was, self.story.change, by_command=True)

    @rule(seconds=st.sampled_from([0.001, 1, 60, 200, 599, 3600]))
    def look(self, seconds: float) -> None:
        story = self.story
        story.now_ms += round(1_000 * seconds)
        while (after := story.next()) is not (was := story.change):
            self.check(was, after, by_command=False)
            story.ledger.take_change(after)

    # -- what must hold ------------------------------------------------------------------------------

    def check(self, was: Change, now: Change, *, by_command: bool) -> None:
        if now is was:
            return
        assert now.revision == was.revision + 1
        assert not was.state.final or now.state is was.state
        opens = was.holds and now.opened_by is not None
        if opens and not by_command:
            deadline_ms = was.deadline_ms or 0
            in_time = self.story.now_ms >= deadline_ms > 0
            assert self.story.evidence.positioned or in_time
            assert now.opened_by == ("deadline" if not self.story.evidence.positioned else "evidence")
        if by_command:
            assert now.opened_by == was.opened_by
        if now.state is State.CONVERGED and was.state is not State.CONVERGED:
            totals = now.totals
            assert totals.live > 0
            assert totals.live == totals.applied
        assert now.spec == was.spec
        assert {one.group for one in was.groups} <= {one.group for one in now.groups}

    @invariant()
    def what_has_not_come_to_an_effect_leaves_nothing_behind(self) -> None:
        if self.story.change.state.final:
            assert not self.limited()

    @invariant()
    def the_topic_is_not_grown_before_all_who_live_hold_the_gate_and_all_groups_are_known(self) -> None:
        story = self.story
        if is_due(story.change, story.ledger.leases, story.cluster, story.now_ms) and story.change.holds:
            assert not story.evidence.unarmed
            assert story.evidence.readers_known
            assert story.cluster.count == 6

    @invariant()
    def an_instance_that_is_told_nothing_more_opens_at_its_own_deadline_and_not_before(self) -> None:
        change, now_ms, seen = self.story.change, self.story.now_ms, self.story.cluster.count or 0
        if self.knew_at is None and (change.state.happened or seen > 6):
            self.knew_at = now_ms
        limited = self.limited()
        if change.holds and self.story.cluster.topic_id == "topic-id-1":
            due = self.knew_at is not None and now_ms / 1_000 >= self.knew_at / 1_000 + change.spec.deadline_s
            assert limited is not due

    def limited(self) -> bool:
        """Tell whether a producer keeps to the old partitions."""
        story, seen = self.story, self.story.cluster.count or 0
        self.duties.ledger.take_change(story.change)
        cluster = cluster_of(
            {TOPIC: {"id": "topic-id-1", "partitions": [1] * max(1, seen)}}, cluster_id=CLUSTER
        )
        limits = self.duties.limits(cluster, story.now_ms / 1_000)
        assert limits.get(TOPIC, 6) == 6
        return TOPIC in limits

    @invariant()
    def a_tracker_that_takes_over_goes_on_where_this_one_is(self) -> None:
        story = self.story
        change = decode(Change, encode(story.change))
        assert change == story.change
        successor = Story(cluster=story.cluster, now_ms=story.now_ms)
        successor.ledger.take_change(change)
        records = [*story.ledger.leases.values()]
        random.Random(len(records)).shuffle(records)
        for each in records:
            successor.ledger.take_lease(each.record, each.at_ms)
        assert ONE in successor.ledger.changes
        assert successor.next() == story.next()


TestOneChange = OneChange.TestCase
TestOneChange.settings = settings(max_examples=scaled(50), stateful_step_count=25)
