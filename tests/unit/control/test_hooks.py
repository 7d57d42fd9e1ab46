"""Rebalance hooks beside clients that answer or do not: what is committed; the rebalance goes on."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_partition_events.control.agents import confluent as of_confluent
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.control.agents.consumer_duties import ConsumerReading
from tests.control_kit import NEW, Link

OLD = frozenset(range(6))
LOW = 40
"""Where all logs begin."""


@define
class Brokers:
    """What they know, and what a client may not do."""

    count: int = 6
    committed: dict[int, int] = field(factory=dict)
    commits: list[dict[int, int]] = field(factory=list)
    broken: set[str] = field(factory=set)
    refuses: bool = False
    error: int = KafkaError.TOPIC_AUTHORIZATION_FAILED

    def check(self, what: str) -> None:
        if what in self.broken:
            raise KafkaException(KafkaError(self.error))

    def commit(self, offsets: dict[int, int]) -> None:
        self.commits.append(offsets)
        if not self.refuses:
            self.committed |= offsets

    def recover(self) -> None:
        self.broken.clear()
        self.refuses = False


class Agent(ConsumerAgent):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__(Link(), "c", "billing")
        self.told: list[ConsumerReading] = []

    def report(self, reading: ConsumerReading) -> None:
        self.told.append(reading)

    def last(self, name: str) -> set[int]:
        return {tp.partition for tp in getattr(self.told[-1], name)}


@define
class Confluent:
    """A consumer of confluent-kafka with the hook."""

    brokers: Brokers
    agent: Agent
    called: list[tuple[str, set[int]]] = field(factory=list)
    hook: Any = None

    def __attrs_post_init__(self) -> None:
        def mine(name: str) -> Callable[[Any, Sequence[ConfluentPartition]], None]:
            return lambda _consumer, those: self.called.append((name, {tp.partition for tp in those}))

        self.hook = of_confluent.RebalanceHook(
            self.agent,
            on_assign=mine("assigned"),
            on_revoke=mine("revoked"),
            pause=lambda _seconds: self.brokers.recover(),
        )
        self.hook.subscribe(self, ["orders", "^regex.*"])

    def rebalance(self, what: str, partitions: frozenset[int]) -> None:
        getattr(self.hook, f"on_{what}")(self, [ConfluentPartition("orders", p) for p in sorted(partitions)])

    # -- Consumer --------------------------------------------------------------------------------------

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        assert topics == ["orders", "^regex.*"]
        assert set(callbacks) == {"on_assign", "on_revoke"}

    def list_topics(self, topic: str, timeout: float) -> Any:
        self.brokers.check("count")
        found = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.brokers.count)))
        return SimpleNamespace(cluster_id="c-1", topics={topic: found})

    def committed(self, partitions: list[ConfluentPartition], timeout: float) -> list[ConfluentPartition]:
        self.brokers.check("committed")
        at = self.brokers.committed.get
        return [ConfluentPartition(tp.topic, tp.partition, at(tp.partition, -1001)) for tp in partitions]

    def offsets_for_times(
        self, partitions: list[ConfluentPartition], timeout: float
    ) -> list[ConfluentPartition]:
        self.brokers.check("beginnings")
        return [ConfluentPartition(tp.topic, tp.partition, LOW) for tp in partitions]

    def commit(self, offsets: list[ConfluentPartition], asynchronous: bool) -> None:
        assert asynchronous, "a synchronous one may never return"
        self.brokers.check("commit")
        self.brokers.commit({tp.partition: tp.offset for tp in offsets})


def test_the_beginning_of_new_partitions_is_committed_before_the_callback_returns() -> None:
    brokers = Brokers()
    consumer = Confluent(brokers, Agent())
    consumer.rebalance("assign", OLD)
    assert brokers.commits == []
    consumer.rebalance("assign", NEW)
    assert brokers.commits == [dict.fromkeys(NEW, LOW)]
    assert consumer.agent.last("assigned") == OLD | NEW
    assert consumer.agent.last("positioned") == NEW


def test_what_the_group_has_committed_is_left_as_it_is_and_told() -> None:
    brokers = Brokers(committed={6: 77, 7: 78})
    consumer = Confluent(brokers, Agent())
    consumer.rebalance("assign", OLD | NEW)
    assert brokers.commits == [dict.fromkeys(NEW - {6, 7}, LOW)]
    assert consumer.agent.last("positioned") == NEW
    consumer.rebalance("revoke", OLD | NEW)
    consumer.rebalance("assign", NEW)
    assert len(brokers.commits) == 1


@pytest.mark.parametrize("broken", ["committed", "beginnings", "commit"])
def test_a_failure_stops_no_rebalance_and_the_next_one_tries_again(broken: str) -> None:
    brokers = Brokers()
    consumer: Any = Confluent(brokers, Agent())
    brokers.broken.add(broken)
    consumer.rebalance("assign", NEW)
    assert consumer.called == [("assigned", NEW)]
    assert (consumer.agent.last("assigned"), consumer.agent.last("positioned")) == (NEW, set())
    brokers.broken.clear()
    consumer.rebalance("revoke", NEW)
    consumer.rebalance("assign", NEW)
    assert brokers.commits == [dict.fromkeys(NEW, LOW)]
    assert consumer.agent.last("positioned") == NEW


def test_without_a_count_at_the_start_the_first_assignment_tells_what_is_old() -> None:
    brokers = Brokers(broken={"count"})
    consumer = Confluent(brokers, Agent())
    brokers.broken.clear()
    consumer.rebalance("assign", OLD)
    brokers.count = 12
    consumer.rebalance("assign", NEW)
    assert brokers.commits == [dict.fromkeys(NEW, LOW)]


def test_the_applications_own_callbacks_are_called() -> None:
    consumer = Confluent(Brokers(), Agent())
    consumer.rebalance("assign", OLD)
    consumer.rebalance("revoke", frozenset({0}))
    consumer.rebalance("revoke", frozenset({1}))
    assert consumer.called == [("assigned", OLD), ("revoked", {0}), ("revoked", {1})]
    assert consumer.agent.last("assigned") == OLD - {0, 1}


@pytest.mark.parametrize("refuses", [False, True])
def test_what_passes_by_itself_is_tried_again_at_once(refuses: bool) -> None:
    # A leader may hear late of new partitions, and a coordinator; an asynchronous commit does not tell.
    brokers = Brokers(error=KafkaError.NOT_LEADER_FOR_PARTITION, refuses=refuses)
    consumer = Confluent(brokers, Agent())
    brokers.broken |= set() if refuses else {"beginnings"}
    consumer.rebalance("assign", NEW)
    assert brokers.commits == [dict.fromkeys(NEW, LOW)] * (1 + refuses)
    assert consumer.agent.last("positioned") == NEW


def test_a_commit_is_no_position_before_the_coordinator_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_confluent, "LIMIT_S", 0.0)
    brokers = Brokers(refuses=True)
    consumer = Confluent(brokers, Agent())
    consumer.rebalance("assign", NEW)
    assert brokers.commits == [dict.fromkeys(NEW, LOW)]
    assert consumer.agent.last("assigned") == NEW
    assert consumer.agent.last("positioned") == set()


def test_a_position_is_told_again_after_a_revocation_only_if_it_is_there_still() -> None:
    # The topic may have been created again meanwhile, without what the group had committed.
    brokers = Brokers(count=12)
    consumer = Confluent(brokers, Agent())
    brokers.committed = dict.fromkeys(NEW, 77)
    consumer.hook._reading = ConsumerReading(counts={"orders": 6})
    consumer.rebalance("assign", NEW)
    assert consumer.agent.last("positioned") == NEW
    consumer.rebalance("revoke", NEW - {6})
    assert consumer.agent.last("positioned") == {6}
    brokers.committed.clear()
    brokers.refuses = True
    brokers.error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    brokers.broken = {"commit"}
    consumer.rebalance("assign", NEW - {6})
    assert consumer.agent.last("positioned") == {6}
