"""What a consumer's agent publishes, told by a hook what the consumer has."""

from kafka_partition_events.control.agents.agent_thread import BUSY_S
from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.control.agents.consumer_duties import ConsumerDuties, Reading
from kafka_partition_events.control.protocol.records import Ack, Change
from kafka_partition_events.control.protocol.vocabulary import Status
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.testing import ManualClock
from tests.control_kit import ONE, Link, Story, gated, grown, growth, lease

LIMIT_S = 20.0
HALF, REST = frozenset({6, 7, 8}), frozenset({9, 10, 11})


def of_orders(partitions: frozenset[int]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", partition) for partition in partitions)


def reading(assigned: frozenset[int] = frozenset(), positioned: frozenset[int] = frozenset()) -> Reading:
    return Reading(
        counts={"orders": 6},
        assigned=of_orders(assigned),
        positioned=of_orders(positioned),
    )


def duties(*changes: Change) -> ConsumerDuties:
    made = ConsumerDuties(lease("c", group="billing", view=(), lease_seq=0), spread=0.0)
    for change in changes:
        made.ledger.take_change(change)
    return made


class TestAcks:
    def acks(self, mine: ConsumerDuties, told: Reading) -> tuple[Ack, ...]:
        return mine.reports(told, 0.0).acks

    def test_are_what_evidence_takes_for_a_position_of_the_group(self) -> None:
        story = grown(gated())
        story.lives("xy", group="billing")
        for name, share in (("x", HALF), ("y", REST)):
            mine = ConsumerDuties(lease(name, group="billing"))
            mine.ledger.take_change(story.change)
            (ack,) = self.acks(mine, reading(share, share))
            assert not story.evidence.positioned
            story.ledger.take_ack(ack, story.now_ms)
        assert (story.evidence.assigned, story.evidence.positioned) == (True, True)

    def test_not_before_it_has_a_position(self) -> None:
        (ack,) = self.acks(duties(grown(gated()).change), reading(HALF))
        assert (f"{ack.assigned}", f"{ack.positioned}", ack.status) == ("6-8", "", Status.OBSERVED)

    def test_a_position_stays_the_groups_when_the_partition_is_gone(self) -> None:
        mine = duties(grown(gated()).change)
        self.acks(mine, reading(HALF, HALF))
        (ack,) = self.acks(mine, reading(frozenset(), HALF))
        assert (f"{ack.assigned}", f"{ack.positioned}", ack.ack_seq) == ("", "6-8", 2)

    def test_once_until_something_is_new_or_the_ack_was_lost(self) -> None:
        mine = duties(grown(gated()).change)
        (ack,) = self.acks(mine, reading(HALF, HALF))
        assert self.acks(mine, reading(HALF, HALF)) == ()
        mine.was_lost(ack, 0.0)
        assert len(self.acks(mine, reading(HALF, HALF))) == 1

    def test_none_of_changes_that_do_not_concern_it(self) -> None:
        others = [growth(topic="other")]
        changes = [grown(gated(required_groups=())).change]
        for number, spec in enumerate(others):
            story = Story()
            story.request(spec, f"chg-{number}")
            changes.append(story.ledger.changes[f"chg-{number}"])
        found = self.acks(duties(*changes), reading(HALF))
        assert [ack.change_id for ack in found] == [ONE]


class TestLeases:
    def test_make_its_group_a_reader_of_its_topics_even_without_a_partition(self) -> None:
        (use,) = duties().reports(reading(), 0.0).lease.view  # type: ignore[union-attr]
        assert (use.topic, use.seen, use.used) == ("orders", 6, 0)


class TestAgent:
    def test_looks_often_while_a_change_of_its_topic_is_open(self) -> None:
        link, clock = Link(), ManualClock()
        agent = ConsumerAgent(link, "c", "billing", clock=clock)
        agent._reading = reading(HALF)
        assert agent._look() > BUSY_S
        link.write(grown(gated()).change)
        assert agent._look() == BUSY_S
        assert link.of("acks", "assigned") == ["6-8"]
        agent.close()

    def test_says_at_once_what_it_is_told_and_goodbye(self) -> None:
        link = Link()
        link.write(grown(gated()).change)
        agent = ConsumerAgent(link, "c", "billing")
        assert agent.start(LIMIT_S)
        assert [change.change_id for change in agent.changes] == [ONE]
        before = link.reads
        agent.tell(reading(HALF, HALF))
        with link.changed:
            assert link.changed.wait_for(lambda: link.reads > before, LIMIT_S)
        agent.close()
        assert link.of("acks", "positioned") == ["6-8"]
        assert link.of("leases", "group") == ["billing"] * len(link.of("leases", "group"))
        assert link.of("leases", "ttl_s")[-1] == 0.0
