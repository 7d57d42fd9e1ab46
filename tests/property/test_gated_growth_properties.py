"""No record reaches a new partition before the group has a position on all, or the deadline has passed.

A fleet with real partitioners, a tracker and a consumer group, in whatever order things happen: agents and
tracker may be slow, restart or lose the control topics in the middle; pollers may see the growth before
anybody else does, or last.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.control.agents.producer_duties import ProducerDuties
from kafka_partition_events.control.changes.transitions import is_due
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, NEW, TOPIC, Story, gated, lease
from tests.property.examples import scaled

DEADLINE_S = 120.0
KEYS = [None, *(b"key-%d" % n for n in range(24))]
WHO = st.integers(0, 2)


class Producer:
    """A partitioner, the agent beside it, and what its poller has seen last."""

    def __init__(self, world: "GatedGrowth", name: str, incarnation: int) -> None:
        self.world = world
        self.partitioner = DefaultPartitioner()
        self.duties = ProducerDuties(
            lease=lease(name, view=(), lease_seq=0, incarnation=f"{name}-{incarnation}"), spread=0.0
        )
        self.read = 0
        self.looked_ms = 0
        topics = {} if name == "c" else {TOPIC: [1] * 6}  # one begins to use it when it polls next
        self.cluster = None if incarnation else cluster_of(topics, cluster_id=CLUSTER)
        self.partitioner.apply_snapshot(self.cluster)

    def look(self) -> None:
        world = self.world
        now_ms, now = world.story.now_ms, world.story.now_ms / 1_000
        self.looked_ms = now_ms
        if world.reachable:
            for change in world.log[self.read :]:
                self.duties.ledger.take_change(change)
            self.read = len(world.log)
        self.partitioner.routing.limit(self.duties.limits(self.cluster, now))
        route = self.partitioner.route(TOPIC)
        used = {} if route is None else {TOPIC: len(route.admitted)}
        lease, _ = self.duties.says(self.cluster, used, now)
        if lease is not None:
            if world.reachable:
                world.story.ledger.take_lease(lease, now_ms)
            self.duties.was_appended(now_ms if world.reachable else None, now)

    def poll(self) -> None:
        self.cluster = cluster_of({TOPIC: [1] * self.world.count}, cluster_id=CLUSTER)
        self.partitioner.apply_snapshot(self.cluster)

    def send(self) -> set[int]:
        return {self.partitioner.partition(TOPIC, key, key, None, None, None) for key in KEYS} - {-1}


class GatedGrowth(RuleBasedStateMachine):
    """One change, from its request on; the tracker grows the topic."""

    @initialize(grown=st.booleans())
    def start(self, grown: bool) -> None:
        self.story = Story()
        self.log: list[Change] = []
        self.reachable = True
        self.positioned: frozenset[int] = frozenset()
        self.grown_ms: int | None = None
        self.started = 0
        self.fleet = [Producer(self, name, 0) for name in "abc"]
        for producer in self.fleet:
            producer.look()
        self.story.request(gated(execute=True, deadline_s=DEADLINE_S))
        self.log.append(self.story.change)
        if grown:  # else most stories would end before it
            for producer in self.fleet:
                producer.look()
            self.track()

    @property
    def count(self) -> int:
        return self.story.cluster.count or 0

    # -- what happens --------------------------------------------------------------------------------

    @rule(who=WHO)
    def look(self, who: int) -> None:
        self.fleet[who].look()

    @rule(who=WHO)
    def poll(self, who: int) -> None:
        self.fleet[who].poll()

    @rule()
    def track(self) -> None:
        if not self.reachable:
            return
        story = self.story
        if is_due(story.change, story.ledger.leases, story.cluster, story.now_ms):
            self.grown_ms = story.now_ms
            story.sees(count=12)
        while (after := story.next()) is not story.change:
            story.ledger.take_change(after)
            self.log.append(after)

    @rule()
    def take_over(self) -> None:
        """Let another tracker go on, from what is in the topics."""
        story, before = self.story, self.story.ledger
        story.epoch = before.next_epoch()
        story.ledger = Ledger()
        for change in self.log:
            story.ledger.take_change(change)
        for known in before.leases.values():
            story.ledger.take_lease(known.record, known.at_ms)

    @precondition(lambda self: self.grown_ms is not None)
    @rule(reachable=st.booleans())
    def lose_or_find_the_control_topics(self, reachable: bool) -> None:
        self.reachable = reachable

    @precondition(lambda self: self.reachable)
    @rule(who=WHO)
    def restart(self, who: int) -> None:
        """Let a producer be killed and come back; it reads the changes before its first record."""
        self.started += 1
        self.story.now_ms += 1  # two births under one name within a millisecond have no order
        self.fleet[who] = Producer(self, "abc"[who], self.started)
        self.fleet[who].look()

    @precondition(lambda self: self.grown_ms is not None)
    @rule(more=st.frozensets(st.sampled_from(sorted(NEW)), min_size=1))
    def consume(self, more: frozenset[int]) -> None:
        self.positioned |= more
        if self.reachable:
            self.story.probed("billing", self.positioned)

    @rule(seconds=st.sampled_from([0.1, 2.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.story.now_ms += round(1_000 * seconds)
        for producer in self.fleet:
            if self.story.now_ms - producer.looked_ms > 60_000:
                producer.look()

    # -- what must hold ------------------------------------------------------------------------------

    @invariant()
    def nobody_writes_where_nobody_reads(self) -> None:
        over = self.grown_ms is not None and self.story.now_ms >= self.grown_ms + 1_000 * DEADLINE_S
        if self.positioned >= NEW or over:
            return
        for producer in self.fleet:
            assert producer.send() <= set(range(6))

    @invariant()
    def the_topic_grows_only_when_all_hold(self) -> None:
        if self.grown_ms is None:
            return
        assert self.story.change.totals.unarmed == 0
        assert self.story.change.state is not State.REJECTED

    def teardown(self) -> None:
        """Let everything be well in the end: then all of them open, and the change converges."""
        if not hasattr(self, "fleet"):
            return
        self.reachable = True
        for _ in range(6):  # what was lost on the way to the control topics is said again later
            for producer in self.fleet:
                producer.poll()
                producer.look()
            self.track()
            self.positioned = NEW
            self.story.probed("billing", NEW)
        # One that had no live producer at its deadline, or a group that had not followed, is over by then.
        change = self.story.change
        all_there = change.totals.live and all(group.followed for group in change.groups)
        over = change.state is State.PARTIALLY_CONVERGED and not all_there
        assert change.state is State.CONVERGED or over
        for producer in self.fleet:
            assert producer.send() > set(range(6))


TestGatedGrowth = GatedGrowth.TestCase
TestGatedGrowth.settings = settings(max_examples=scaled(50), stateful_step_count=25)
