"""What an agent sets and says at each look, told by what it has read and what its poller sees."""

import random

import pytest

from kafka_partition_events.control.agents.leases import BUSY_S, HEARTBEAT_S, delay_of
from kafka_partition_events.control.agents.producer_duties import ProducerDuties
from kafka_partition_events.control.protocol.records import Change, TopicUse
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, ONE, Story, gated, grown, growth, lease

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


def said(agent: ProducerDuties, cluster: Cluster, used: int | None = None, now: float = 0.0) -> TopicUse:
    found, _ = agent.says(cluster, {} if used is None else {"orders": used}, now)
    assert found is not None
    (use,) = found.view
    return use


class TestLimits:
    @pytest.mark.parametrize("cluster", [None, cluster_of({}, cluster_id=CLUSTER)])
    def test_a_gate_is_set_before_the_poller_answers_or_the_topic_is_used(
        self, cluster: Cluster | None
    ) -> None:
        assert duties(grown(gated()).change).limits(cluster, now=0.0) == HELD

    def test_it_opens_by_itself_when_nobody_tells_and_says_when_it_will(self) -> None:
        agent = duties(requested(gated(deadline_s=60)))
        assert agent.limits(sees(6), now=0.0) == HELD, "before there is anything to hold back from"
        assert agent.limits(sees(12), now=100.0) == HELD
        assert said(agent, sees(12), now=100.0).holds == ONE
        assert agent.says(sees(12), {}, now=159.0)[1] == 160.0
        assert agent.limits(sees(12), now=159.9) == HELD
        assert agent.limits(sees(12), now=160.0) == {}
        assert said(agent, sees(12), now=160.0).holds is None


class TestWhatIsSaid:
    @pytest.mark.parametrize("seen", [6, 12])
    def test_who_holds_says_for_good_whether_it_did_before_the_growth(self, seen: int) -> None:
        agent = duties(requested(gated()))
        uses = said(agent, sees(seen), 6), said(agent, sees(12), 6, now=100.0)
        assert [(use.holds, use.armed) for use in uses] == [(ONE, seen == 6)] * 2

    def test_who_does_not_hold_says_so(self) -> None:
        use = said(duties(requested(growth())), sees(12), 4)
        assert (use.holds, use.armed, use.seen, use.used) == (None, False, 12, 4)

    @pytest.mark.parametrize("cluster", [None, cluster_of({}), cluster_of({"t": [1]})])
    def test_what_is_held_is_named_though_it_is_not_used(self, cluster: Cluster | None) -> None:
        found, _ = duties(requested(gated())).says(cluster, {}, now=0.0)
        assert found is not None
        assert found.view[0] == TopicUse(topic="orders", seen=0, used=0, holds=ONE, armed=True)
        ungated, _ = duties(requested(growth())).says(cluster, {}, now=0.0)
        assert ungated is not None
        assert "orders" not in {use.topic for use in ungated.view}

    def test_news_is_spread_over_a_fleet_and_said_once(self) -> None:
        agent = duties()
        agent.spread = 5.0
        said(agent, sees(6))
        nothing, again_at = agent.says(sees(12), {}, now=1.0)
        assert nothing is None
        assert 1 < again_at < 6
        assert said(agent, sees(12), now=again_at).seen == 12
        assert agent.says(sees(12), {}, now=again_at + 1)[0] is None

    def test_the_news_of_a_fleet_is_spread_evenly(self) -> None:
        delays = [delay_of(f"instance-{n}") for n in range(10_000)]
        per_second = [sum(second <= delay < second + 1 for delay in delays) for second in range(5)]
        assert sum(per_second) == len(delays)
        assert max(per_second) < 2_200
        assert delays[7] == delay_of("instance-7")

    def test_what_was_lost_is_said_again(self) -> None:
        agent = duties()
        said(agent, sees(6))
        agent.was_appended(None, now=3.0)
        assert agent.says(sees(6), {}, now=3.9)[0] is None
        assert said(agent, sees(6), now=4.0).seen == 6

    def test_it_looks_often_only_while_a_change_of_its_topics_is_open(self) -> None:
        assert duties(requested(growth())).says(sees(6), {}, now=0.0)[1] == BUSY_S
        assert duties().says(sees(6), {}, now=0.0)[1] > BUSY_S
        other = cluster_of({"other": [1]}, cluster_id=CLUSTER)
        assert duties(requested(gated())).says(other, {}, now=0.0)[1] > BUSY_S


class TestLeases:
    def test_come_with_a_jitter_and_count_up(self) -> None:
        agent, now, gaps = duties(), 0.0, []
        for seq in range(1, 20):
            found, again_at = agent.says(sees(6), {}, now)
            assert found is not None
            assert found.lease_seq == seq
            gaps.append(again_at - now)
            now = again_at
            assert agent.says(sees(6), {}, now - 0.001)[0] is None
        assert all(0.8 * HEARTBEAT_S <= gap <= 1.2 * HEARTBEAT_S for gap in gaps)
        assert len(set(gaps)) > 10

    def test_the_last_one_says_that_it_is(self) -> None:
        agent = duties()
        agent.says(sees(6), {}, now=0.0)
        last = agent.last_lease()
        assert (last.ttl_s, last.lease_seq) == (0.0, 2)
