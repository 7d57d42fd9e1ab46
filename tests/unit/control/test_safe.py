"""What "safe" rests on: who is waited for, what the topic is, and what one record can cost."""

import tracemalloc

import pytest

from kafka_partition_events.control.agents.consumer_duties import ConsumerDuties, to_pin
from kafka_partition_events.control.agents.producer_duties import ProducerDuties
from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.changes.transitions import is_due
from kafka_partition_events.control.protocol.codec import decode, encode
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import MOST_TOPICS, Change, Lease, TopicUse
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.metadata.cluster import Cluster, TopicPartition
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, NEW, TOPIC, Story, gated, growth, lease


class TestAGroupThatLeavesWhileTheTopicGrows:
    def story(self) -> Story:
        story = Story()
        story.lives("a")
        story.request(gated())
        story.says("a", Status.HELD)
        story.tick()
        story.sees(count=12, readers=frozenset())
        assert story.tick() is State.GATED
        return story

    def test_holds_the_gate_until_it_is_back_and_the_change_names_it(self) -> None:
        story = self.story()
        assert story.tick(60) is State.GATED
        assert story.change.uncovered_groups == ("billing",)
        story.sees(readers=frozenset({"billing"}))
        story.probed("billing", NEW)
        assert story.tick() is State.CONVERGING
        assert story.change.opened_by == "evidence"

    def test_holds_it_to_the_deadline_and_begins_what_was_added_at_its_beginning_later(self) -> None:
        story = self.story()
        story.tick(600)
        assert story.change.opened_by == "deadline"
        assert story.change.uncovered_groups == ("billing",)
        assert story.change.state.final
        mine = ConsumerDuties(lease("x", group="billing"))
        other = ConsumerDuties(lease("y", group="audit"))
        assert mine.needs(story.change)
        assert not other.needs(story.change)

        new = [TopicPartition(TOPIC, partition) for partition in range(4, 8)]
        assert to_pin(new, (), {TOPIC: 12}, [story.change]) == new[2:]


def test_the_tracker_grows_nothing_before_it_knows_which_groups_read_the_topic(story: Story) -> None:
    story.sees(readers=None)
    story.request(gated(execute=True))
    assert not is_due(story.change, story.ledger.leases, story.cluster, story.now_ms)
    story.sees(readers=frozenset())
    assert is_due(story.change, story.ledger.leases, story.cluster, story.now_ms)


@pytest.mark.parametrize("others", [0, 1, MOST_TOPICS])
def test_the_tracker_grows_nothing_before_every_producer_holds_the_gate(others: int, story: Story) -> None:
    # It may write to the topic for the first time a moment after that has grown.
    topics = {f"a{n}": [1] for n in range(others)}
    agent = ProducerDuties(lease("a", view=(), lease_seq=0), spread=0.0)
    seen = cluster_of({**topics, TOPIC: [1] * 6}, cluster_id=CLUSTER), cluster_of(topics, cluster_id=CLUSTER)

    def is_due_when_it_has_said(at: float, cluster: Cluster) -> bool:
        said, _ = agent.says(cluster, {}, at)
        assert said is not None
        story.ledger.take_lease(said, story.now_ms)
        return is_due(story.change, story.ledger.leases, story.cluster, story.now_ms)

    story.request(gated(execute=True))
    assert not is_due_when_it_has_said(0.0, seen[1]), "it has not read the change, and may write to the topic"
    agent.ledger.take_change(story.change)
    assert is_due_when_it_has_said(40.0, seen[1]), "it does not use the topic, and holds the gate of it"
    assert story.evidence.totals.live == 0
    assert is_due_when_it_has_said(80.0, seen[0])
    assert story.evidence.totals.held == 1


@pytest.mark.parametrize(
    "topic",
    [
        "__consumer_offsets", "__transaction_state", "__remote_log_metadata", "_schemas", "connect-offsets",
        "dev-connect-configs", "kpe.leases", "app-store-changelog", "app-orders-repartition",
    ],
)  # fmt: skip
def test_a_number_of_partitions_that_is_a_contract_is_never_changed(topic: str, story: Story) -> None:
    story.request(growth(topic=topic))
    assert story.change.state is State.REJECTED
    assert "partitions" in story.refused[0].detail


class TestWhatARecordCosts:
    def test_a_set_of_partitions_costs_what_its_text_costs(self) -> None:
        value = encode(lease("a", positioned=PartitionSet.span(0, 10_000)))
        tracemalloc.start()
        try:
            kept = [decode(Lease, value) for _ in range(400)]
            assert tracemalloc.get_traced_memory()[0] < 4_000_000
        finally:
            tracemalloc.stop()
        assert len(kept[0].view[0].positioned) == 10_000

    def test_an_agent_keeps_no_change_that_was_refused(self, story: Story) -> None:
        story.request(growth(from_count=7))
        assert story.change.refused_at_once
        for duties in (ProducerDuties(lease("a")), ConsumerDuties(lease("x", group="billing"))):
            duties.ledger.take_change(story.change)
            duties.ledger.keep(duties.needs)
            assert not duties.ledger.changes

    def test_fields_are_as_few_as_can_be(self) -> None:
        from attrs import fields  # noqa: PLC0415

        assert [len(fields(kind)) for kind in (Change, Lease, TopicUse)] == [16, 7, 7]
