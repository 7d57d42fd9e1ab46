"""What a consumer's agent publishes, told by a hook what the consumer has."""

from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
from kafka_partition_events.control.agents.consumer_duties import ConsumerDuties, ConsumerReading
from kafka_partition_events.control.agents.leases import BUSY_S
from kafka_partition_events.control.protocol.records import Change, TopicUse
from kafka_partition_events.testing import ManualClock
from tests.control_kit import ONE, Link, gated, grown, growth, lease
from tests.unit.control.test_group_state import HALF, NONE, REST, of_orders

LIMIT_S = 20.0


def reading(assigned: frozenset[int] = NONE, positioned: frozenset[int] = NONE) -> ConsumerReading:
    partitions = {"assigned": of_orders(assigned), "positioned": of_orders(positioned)}
    return ConsumerReading(counts={"orders": 6}, **partitions)


def said(told: ConsumerReading, *changes: Change) -> TopicUse:
    mine = ConsumerDuties(lease("c", group="billing", view=(), lease_seq=0), spread=0.0)
    for change in changes:
        mine.ledger.take_change(change)
    found, _ = mine.says(told, 0.0)
    assert found is not None
    (use,) = found.view
    return use


def test_what_members_say_is_evidence_of_a_position_of_the_group() -> None:
    story = grown(gated())
    for name, share in (("x", HALF), ("y", REST)):
        assert not story.evidence.positioned
        use = said(reading(share, share), story.change)
        story.ledger.take_lease(lease(name, group="billing", view=(use,)), story.now_ms)
    assert story.evidence.positioned


def test_not_before_it_has_a_position_and_a_position_stays_the_groups_when_the_partition_is_gone() -> None:
    change = grown(gated()).change
    uses = said(reading(HALF), change), said(reading(frozenset(), HALF), change)
    assert [(f"{use.positioned}", use.used) for use in uses] == [("", 3), ("6-8", 0)]


def test_a_lease_lists_no_partitions_but_the_new_ones_of_an_open_change() -> None:
    old = frozenset({1, 7})
    told = reading(old, old)
    uses = said(told), said(told, grown(growth(topic="other")).change)
    assert [(f"{use.positioned}", use.used) for use in uses] == [("", 2)] * 2
    assert f"{said(told, grown(gated()).change).positioned}" == "7"


def test_a_lease_makes_its_group_a_reader_of_its_topics_even_without_a_partition() -> None:
    use = said(reading())
    assert (use.topic, use.seen, use.used) == ("orders", 6, 0)


class TestAgent:
    def test_looks_often_while_a_change_of_its_topic_is_open(self) -> None:
        link, clock = Link(), ManualClock()
        agent = ConsumerAgent(link, "c", "billing", clock=clock)
        agent._reading = reading(HALF, HALF)
        assert agent._round() > BUSY_S
        link.write(grown(gated()).change)
        assert agent._round() == BUSY_S
        assert link.uses("positioned") == ["", "6-8"]
        agent.close()

    def test_says_at_once_what_it_is_told_and_goodbye(self) -> None:
        link = Link()
        link.write(grown(gated()).change)
        agent = ConsumerAgent(link, "c", "billing")
        assert agent.start(LIMIT_S)
        assert [change.change_id for change in agent.changes] == [ONE]
        before = link.reads
        agent.report(reading(HALF, HALF))
        with link.changed:
            assert link.changed.wait_for(lambda: link.reads > before, LIMIT_S)
        agent.close()
        assert "6-8" in link.uses("positioned")
        assert {*link.of("group")} == {"billing"}
        assert link.of("ttl_s")[-1] == 0.0
