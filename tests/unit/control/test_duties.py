"""What an agent sets and says at each look, told by what it has read and what its poller sees."""

import random

import pytest

from kafka_partition_events.control.agents.leases import HEARTBEAT_S
from kafka_partition_events.control.agents.producer_duties import ProducerDuties
from kafka_partition_events.control.protocol.records import Ack, Change
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Status, Verb
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.limits import NO_LIMITS
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, Story, gated, grown, growth, lease

HELD = {"orders": 6}


def sees(count: int, **others: int) -> Cluster:
    topics = {"orders": [1] * count, **{name: [1] * n for name, n in others.items()}}
    return cluster_of(topics, cluster_id=CLUSTER)


def duties(*changes: Change, **fields: object) -> ProducerDuties:
    made = ProducerDuties(lease=lease("a", view=(), lease_seq=0), spread=0.0, rng=random.Random(1), **fields)  # type: ignore[arg-type]
    for change in changes:
        made.ledger.take_change(change)
    return made


def requested(spec: Spec) -> Change:
    story = Story()
    story.request(spec)
    return story.change


def said(acks: tuple[Ack, ...]) -> list[Status]:
    return [ack.status for ack in acks]


class TestLimits:
    def test_a_gate_is_set_before_there_is_anything_to_hold_back_from(self) -> None:
        assert duties(requested(gated())).limits(sees(6), now=0.0) == HELD

    @pytest.mark.parametrize("cluster", [None, cluster_of({}, cluster_id=CLUSTER)])
    def test_and_before_the_poller_has_answered_or_the_topic_is_used(self, cluster: Cluster | None) -> None:
        assert duties(grown(gated()).change).limits(cluster, now=0.0) == HELD

    def test_it_opens_by_itself_when_nobody_tells_and_says_when_it_will(self) -> None:
        agent = duties(requested(gated(deadline_s=60)))
        assert agent.limits(sees(6), now=0.0) == HELD
        assert agent.limits(sees(12), now=100.0) == HELD
        agent.reports(sees(12), {}, now=100.0)
        later = agent.reports(sees(12), {}, now=135.0)
        assert later.again_at == 160.0
        assert agent.limits(sees(12), now=159.9) == HELD
        assert agent.limits(sees(12), now=160.0) == NO_LIMITS


class TestAcks:
    def test_each_statement_is_made_once(self) -> None:
        agent = duties(requested(gated()))
        agent.limits(sees(6), now=0.0)
        (ack,) = agent.reports(sees(6), {}, now=0.0).acks
        assert (ack.status, ack.armed_count) == (Status.HELD, 6)
        assert agent.reports(sees(6), {}, now=1.0).acks == ()

    @pytest.mark.parametrize("seen", [6, 12])
    def test_who_holds_says_for_good_whether_it_did_before_the_growth(self, seen: int) -> None:
        agent = duties(requested(gated()))
        (first,) = agent.reports(sees(seen), {"orders": 6}, now=0.0).acks
        later = agent.reports(sees(12), {"orders": 6}, now=1.0).acks
        assert {ack.armed_count for ack in (first, *later)} == {seen}

    def test_who_does_not_hold_says_nothing_of_it(self) -> None:
        (ack,) = duties(requested(growth())).reports(sees(6), {}, now=0.0).acks
        assert ack.armed_count is None

    @pytest.mark.parametrize(("used", "status"), [(12, Status.APPLIED), (4, Status.CAPPED)])
    def test_who_uses_fewer_partitions_than_it_sees_is_capped(self, used: int, status: Status) -> None:
        agent = duties(grown(growth()).change)
        assert said(agent.reports(sees(12), {"orders": used}, now=0.0).acks) == [status]

    def test_a_fleet_does_not_answer_all_at_once(self) -> None:
        agent = duties(requested(growth()))
        agent.spread = 5.0
        first = agent.reports(sees(6), {}, now=0.0)
        assert first.acks == ()
        assert 0 < first.again_at < 5
        assert said(agent.reports(sees(6), {}, now=first.again_at).acks) == [Status.OBSERVED]

    def test_one_that_was_lost_is_sent_again(self) -> None:
        agent = duties(requested(growth()))
        (ack,) = agent.reports(sees(6), {}, now=0.0).acks
        agent.was_lost(ack, now=3.0)
        assert agent.reports(sees(6), {}, now=3.9).acks == ()
        (again,) = agent.reports(sees(6), {}, now=4.0).acks
        assert again.ack_seq > ack.ack_seq

    def test_none_about_what_is_finished_or_not_used(self) -> None:
        story = grown(growth(required_groups=()))
        story.command(Verb.FINISH)
        assert duties(story.change).reports(sees(12), {}, now=0.0).acks == ()
        nothing = cluster_of({"other": [1]}, cluster_id=CLUSTER)
        reports = duties(requested(gated())).reports(nothing, {}, now=0.0)
        assert reports.acks == ()
        assert not reports.busy


class TestLeases:
    def test_come_with_a_jitter_and_count_up(self) -> None:
        agent, now, gaps = duties(), 0.0, []
        for seq in range(1, 20):
            reports = agent.reports(sees(6), {}, now)
            assert reports.lease is not None
            assert reports.lease.lease_seq == seq
            gaps.append(reports.again_at - now)
            now = reports.again_at
            assert agent.reports(sees(6), {}, now - 0.001).lease is None
        assert all(0.8 * HEARTBEAT_S <= gap <= 1.2 * HEARTBEAT_S for gap in gaps)
        assert len(set(gaps)) > 10

    def test_tell_what_is_seen_and_used_at_once_when_it_changes(self) -> None:
        agent = duties()
        agent.reports(sees(6), {}, now=0.0)
        changed = agent.reports(sees(12), {"orders": 4}, now=1.0).lease
        assert changed is not None
        assert [(use.topic, use.seen, use.used) for use in changed.view] == [("orders", 12, 4)]

    def test_the_last_one_says_that_it_is(self) -> None:
        agent = duties()
        agent.reports(sees(6), {}, now=0.0)
        last = agent.last_lease()
        assert (last.ttl_s, last.lease_seq) == (0.0, 2)
