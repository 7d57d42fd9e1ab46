"""The rounds of a tracker: what is written, when, and what is left to do. No broker, no thread, no clock."""

import itertools
from typing import Any

import pytest
from attrs import define, field

from kafka_partition_events.control.changes import commands, transitions
from kafka_partition_events.control.changes import controller as rounds
from kafka_partition_events.control.changes.commands import LASTS_S, RETIRED_AFTER_MS
from kafka_partition_events.control.changes.controller import (
    LOST_AFTER_MS,
    ClusterSnapshotForControl,
    Controller,
    Decision,
)
from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.groups.state import Probe
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change, Command, Given, group_name
from kafka_partition_events.control.protocol.vocabulary import State, Verb
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo
from tests.control_kit import CLUSTER, ONE, SAID, START_MS, TOPIC, TOPIC_ID, gated, growth, lease


def topic_of(count: int) -> TopicInfo:
    return TopicInfo(TOPIC, tuple(PartitionInfo(TOPIC, n, 1, (1,), (1,)) for n in range(count)), TOPIC_ID)


@define
class World:
    """A tracker whose time stands still until `round` lets it pass."""

    rounds: Controller = field(factory=lambda: Controller(Ledger(), epoch=3))
    now_ms: int = START_MS
    count: int | None = 6
    cluster_id: str = CLUSTER
    blind: bool = False
    probe: Probe = field(factory=Probe)
    offsets: Any = field(factory=itertools.count)

    @property
    def ledger(self) -> Ledger:
        return self.rounds.ledger

    @property
    def change(self) -> Change:
        return self.ledger.changes[ONE]

    def decide(self, *commands: Command | Given, seconds: float = 1, **fields: Any) -> Decision:
        self.now_ms += round(1_000 * seconds)
        there = [] if self.count is None else [topic_of(self.count)]
        cluster = Cluster(by_topic=there, cluster_id=self.cluster_id)
        seen = ClusterSnapshotForControl(cluster=None if self.blind else cluster, probe=self.probe, **fields)
        given = [
            each if isinstance(each, Given) else Given(each, next(self.offsets), self.now_ms)
            for each in commands
        ]
        return self.rounds.decide(given, seen, self.now_ms)

    def round(self, *commands: Command | Given, **passing: Any) -> Decision:
        decision = self.decide(*commands, **passing)
        self.rounds.wrote(decision)
        return decision

    def lives(self, names: str, seen: int = 6, **fields: Any) -> None:
        for name in names:
            self.ledger.take_lease(lease(name, seen, lease_seq=self.now_ms, **fields), self.now_ms)

    def says(self, names: str, status: Status) -> None:
        self.lives(names, **SAID[status])


@pytest.fixture
def world() -> World:
    return World()


def asks(verb: Verb = Verb.REQUEST, change_id: str = ONE, **fields: Any) -> Command:
    return Command(change_id=change_id, verb=verb, actor="alice", **fields)


def states(decision: Decision) -> list[State]:
    return [change.state for change in decision.changes]


class TestARound:
    def test_writes_each_transition(self, world: World) -> None:
        world.lives("a")
        world.round(asks(spec=growth()))
        world.count = 12
        decision = world.round()
        assert states(decision) == [State.CONVERGING]
        assert [change.revision for change in decision.changes] == [3]

    def test_writes_nothing_if_nothing_differs(self, world: World) -> None:
        world.round(asks(spec=gated()))
        assert not world.round(seconds=60).changes

    def test_that_was_not_written_has_not_happened(self, world: World) -> None:
        world.decide(asks(spec=gated()))
        assert not world.ledger.changes

    def test_carries_out_commands_in_their_order(self) -> None:
        decision = World().round(asks(spec=gated()), asks(Verb.CANCEL))
        assert states(decision)[-1] is State.CANCELLED


@pytest.mark.parametrize(
    ("fields", "seen"), [({"blind": True}, {}), ({"cluster_id": "another"}, {}), ({}, {"refused": {TOPIC}})]
)
def test_for_a_topic_that_is_not_seen_no_request_is_taken(
    fields: dict[str, Any], seen: dict[str, Any]
) -> None:
    (refusal,) = World(**fields).round(asks(spec=gated()), **seen).refusals
    assert "the tracker does not see topic orders of cluster c-1 now" in refusal.detail


class TestPartitions:
    def test_that_can_not_be_created_are_told_as_long_as_that_lasts(self, world: World) -> None:
        world.round(asks(spec=growth(execute=True)))
        (told,) = world.round(troubles={ONE: "no right to alter it"}).changes
        assert told.detail == "no right to alter it"
        assert not world.round(troubles={ONE: "no right to alter it"}).changes
        (cleared,) = world.round().changes
        assert cleared.detail == ""

    def test_what_came_of_trying_is_told_when_it_has_led_to_another_number(self, world: World) -> None:
        world.round(asks(spec=growth(execute=True)))
        world.count = 9
        world.round(troubles={ONE: "can't add any"})
        assert world.change.detail == "topic orders has 9 partitions, neither 6 nor 12; can't add any"


class TestATopicThatIsNotThere:
    """A broker that has not heard of the topic ends no change, nor does a right that is lost for a moment."""

    def gone(self, seconds: float, **fields: Any) -> World:
        world = World()
        world.round(asks(spec=gated()))
        world.count = None
        world.round(**fields)
        assert (world.change.state, world.change.holds) == (State.REQUESTED, True)
        assert world.round(asks(Verb.CANCEL), **fields).refusals, "it may have grown"
        world.round(seconds=seconds, **fields)
        return world

    def test_is_gone_after_a_while(self) -> None:
        assert self.gone(seconds=7).change.state is State.REQUESTED
        world = self.gone(seconds=9)
        assert (world.change.state, world.change.detail) == (State.REJECTED, "topic orders is gone")

    def test_that_must_not_be_seen_is_not_gone(self) -> None:
        world = self.gone(seconds=86_400, refused={TOPIC})
        assert (world.change.state, world.change.holds) == (State.REQUESTED, True)


class TestAGrowthThatDoesNotShowYet:
    """It was created a moment ago, and the broker that is asked has not heard of it."""

    def test_can_not_be_cancelled_nor_expire_nor_is_it_due_again(self) -> None:
        world = World(probe=Probe(readers={TOPIC: frozenset()}))
        assert world.round(asks(spec=gated(execute=True))).due
        decision = world.round(asks(Verb.CANCEL), seconds=4_000, growing={ONE})
        assert "so it may have happened" in decision.refusals[0].detail
        assert (world.change.state, decision.due) == (State.REQUESTED, [])
        world.count = 12
        world.round(growing={ONE})
        assert world.change.state is State.GATED


class TestTheEnd:
    def test_a_change_that_is_long_over_gets_a_tombstone(self, world: World) -> None:
        world.round(asks(spec=gated()))
        world.round(asks(Verb.CANCEL))
        assert not world.round(seconds=RETIRED_AFTER_MS / 1_000 - 60).retired
        assert [change.change_id for change in world.round(seconds=120).retired] == [ONE]
        assert not world.ledger.changes
        assert not world.round().retired

    def test_lost_instances_are_forgotten(self, world: World) -> None:
        world.lives("a")
        world.round(seconds=LOST_AFTER_MS / 1_000 + 60)
        assert not world.ledger.leases


def test_a_gate_does_not_open_by_what_was_seen_of_groups_before_growth() -> None:
    world = World(probe=Probe(readers={TOPIC: frozenset()}))
    world.lives("a")
    world.round(asks(spec=gated()))
    world.says("a", Status.HELD)
    world.count = 12
    world.round()
    assert world.change.state is State.GATED, "a group may have begun to read since then"
    world.probe = Probe(readers={TOPIC: frozenset()}, after=frozenset({ONE}))
    assert State.CONVERGING in states(world.round())


def test_a_cancel_that_is_taken_up_after_the_topic_has_grown_does_not_let_go_of_the_gate() -> None:
    world = World()
    world.lives("a")
    world.round(asks(spec=gated(execute=True)))
    world.says("a", Status.HELD)
    world.count = 12
    decision = world.round(asks(Verb.CANCEL))
    assert world.change.state is State.GATED
    assert world.change.holds
    assert "Kafka can't shrink it" in decision.refusals[0].detail


def test_a_cancel_is_refused_as_long_as_nobody_can_look_whether_the_topic_has_grown(world: World) -> None:
    world.round(asks(spec=gated()))
    world.blind = True
    (refusal,) = world.round(asks(Verb.CANCEL)).refusals
    assert (refusal.refused, world.change.holds) == (True, True)


class TestWhatIsOdd:
    def test_a_command_that_can_not_be_obeyed_is_refused_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        carried_out = commands.obey

        def fails_for_one(given: Given, *args: Any, **kwargs: Any) -> Any:
            if given.command.change_id == "odd":
                raise OverflowError("what nobody has thought of")
            return carried_out(given, *args, **kwargs)

        monkeypatch.setattr(rounds, "obey", fails_for_one)
        world = World()
        decision = world.round(asks(change_id="odd", spec=growth()), asks(spec=gated()))
        assert world.change.state is State.REQUESTED
        (refusal,) = decision.refusals
        assert "can't carry it out" in refusal.detail
        assert "nobody has thought of" in decision.faults["odd"]

    def test_a_change_that_can_not_go_on_stays_as_it_is_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = World()
        world.lives("a")
        world.round(asks(spec=gated()))
        world.count = 12
        goes_on = transitions.step

        def fails_for_one(change: Change, *args: Any, **kwargs: Any) -> Any:
            if change.change_id == ONE:
                raise OverflowError("what nobody has thought of")
            return goes_on(change, *args, **kwargs)

        monkeypatch.setattr(rounds, "step", fails_for_one)
        decision = world.round(asks(change_id="chg-3", spec=growth(topic="third")))
        assert (world.change.state, world.change.holds) == (State.REQUESTED, True)
        assert "nobody has thought of" in decision.faults[ONE]
        assert "chg-3" in world.ledger.changes

    def test_groups_with_odd_names_are_told_in_a_legible_way(self) -> None:
        odd = frozenset(map(group_name, ["\x1b[2J", "g" * 5_000]))
        world = World(probe=Probe(readers={TOPIC: odd}, after=frozenset({ONE})))
        world.lives("a")
        world.round(asks(spec=gated()))
        world.count = 12
        assert not world.round().faults
        assert all(name.isprintable() and len(name) <= 256 for name in world.change.uncovered_groups)

    def test_requests_that_were_refused_at_once_do_not_pile_up(self, world: World) -> None:
        flood = [asks(change_id=f"odd-{n}", spec=growth(topic="none")) for n in range(100)]
        assert not world.round(*flood).retired, "who has asked is to read the answer"
        assert not world.round(seconds=LASTS_S).retired, "if read again, it must not be carried out"
        assert len(world.round(seconds=61).retired) == 100
        assert not world.ledger.changes
