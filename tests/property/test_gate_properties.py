"""The staleness gate, given any history of answers."""

from itertools import pairwise

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.events import Rejection
from kafka_partition_events.metadata.reconcile import CONFIRMED, REWOUND, Memory, Reconciliation, reconcile
from kafka_partition_events.metadata.source import Observation
from tests.property.worlds import observations

STEP_S = 20.0
histories = st.lists(observations(), min_size=1, max_size=12)
FOR_EVER = {Rejection.INCOMPLETE, Rejection.TOPIC_ERROR, Rejection.SHRINK}


def play(
    history: list[Observation], start: Reconciliation | None = None, at: float = 0.0
) -> list[Reconciliation]:
    last = start or Reconciliation(EMPTY, (), Memory())
    outcomes = [last]
    for n, observation in enumerate(history):
        now = at + n * STEP_S
        last = reconcile(last.cluster, observation, last.memory, now)
        outcomes.append(last)
    return outcomes


def sane(cluster: Cluster) -> None:
    for name, info in cluster.by_topic.items():
        assert info.name == name
        assert info.partitions, "a topic has partitions"
        for i, p in enumerate(info.partitions):
            assert (p.topic, p.partition) == (name, i)
            assert p.leader is None or p.leader in cluster.nodes, "nobody leads who is not listed"


@given(histories)
def test_whatever_comes_the_snapshot_makes_sense(history: list[Observation]) -> None:
    for outcome in play(history):
        sane(outcome.cluster)


@given(histories)
def test_generation_counts_changes_and_what_is_unchanged_keeps_its_object(history: list[Observation]) -> None:
    for before, after in pairwise(play(history)):
        old, new = before.cluster, after.cluster
        if new is not old:
            assert new.generation == old.generation + 1
            assert new != old or new.cluster_id != old.cluster_id or old is EMPTY
        for name, info in new.by_topic.items():
            known = old.by_topic.get(name)
            if known == info:
                assert known is info
            elif known is not None:
                shrunk = len(info.partitions) < len(known.partitions)
                for p, q in zip(known.partitions, info.partitions, strict=False):
                    assert p != q or p is q or known.topic_id != info.topic_id or shrunk


@given(histories)
def test_an_answer_refused_whole_leaves_everything_as_it_was(history: list[Observation]) -> None:
    for before, after in pairwise(play(history)):
        if not after.good:
            assert after.cluster is before.cluster
            assert len(after.refusals) == 1
            assert after.refusals[0].topic is None
            assert after.memory.unlisted == before.memory.unlisted
            assert after.memory.retired == before.memory.retired


@given(histories)
def test_counts_never_fall_and_epochs_fall_only_after_strikes(history: list[Observation]) -> None:
    for before, after in pairwise(play(history)):
        for name, old in before.cluster.by_topic.items():
            new = after.cluster.by_topic.get(name)
            if new is None or new.topic_id != old.topic_id:
                continue
            if len(new.partitions) < len(old.partitions):
                strike = before.memory.strikes[Rejection.SHRINK, name, None]
                assert old.topic_id is None, "with a topic id, never"
                assert strike.count >= CONFIRMED.answers - 1
                continue
            for p, q in zip(old.partitions, new.partitions, strict=False):
                if (p.leader_epoch or 0) > (q.leader_epoch or 0):
                    strike = before.memory.strikes[Rejection.EPOCH_REWIND, name, p.partition]
                    assert strike.count == REWOUND.answers - 1


@given(histories, observations(honest=True))
def test_an_honest_answer_that_repeats_is_believed_in_the_end(
    history: list[Observation], truth: Observation
) -> None:
    outcomes = play([evolve(o, cluster_id="c") for o in history])
    outcomes = play([truth] * 12, outcomes[-1], at=len(history) * STEP_S)
    end, again = outcomes[-1], outcomes[-2]
    assert end.cluster is again.cluster, "it has come to rest"
    assert {refusal.reason for refusal in end.refusals} <= FOR_EVER
    assert end.cluster.nodes == {node.id: node for node in truth.nodes}
    refused = {refusal.topic for refusal in end.refusals}
    for name, told in truth.topics.items():
        if name not in refused:
            known = end.cluster.by_topic[name]
            leaders = [p.leader if p.leader in end.cluster.nodes else None for p in told.partitions]
            assert [p.leader for p in known.partitions] == leaders
    assert not end.cluster.by_topic.keys() - truth.topics.keys() - refused


@given(histories)
def test_refusals_count_up_one_by_one(history: list[Observation]) -> None:
    for before, after in pairwise(play(history)):
        for refusal in after.refusals:
            last = before.memory.strikes.get((refusal.reason, refusal.topic, refusal.partition))
            assert refusal.strike == 1 or (last is not None and refusal.strike == last.count + 1)
