"""The election by itself, on a real consumer group: who is told what, and by whose clock."""

import queue
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from kafka_partition_events.metadata.clock import SystemClock
from kafka_partition_events.observe import election
from kafka_partition_events.observe.election import Election
from kafka_partition_events.observe.progress import Progress
from kafka_partition_events.testing import KafkaCluster

pytestmark = pytest.mark.kafka

LIMIT_S = 40.0
HOUR = timedelta(hours=1)


class Offset(SystemClock):
    """A clock that is wrong."""

    def __init__(self, by: timedelta = timedelta()) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by


class Candidate:
    """Takes part, and notes what it is told."""

    def __init__(self, cluster: KafkaCluster, name: str, clock: Offset) -> None:
        self.elected: queue.SimpleQueue[Progress] = queue.SimpleQueue()
        self.heard: queue.SimpleQueue[Progress] = queue.SimpleQueue()
        self.deposed: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.why_unfit: str | None = None
        self.election = Election(
            cluster.confluent_options,
            topic=f"elect-{name}",
            group=f"group-{name}",
            on_elected=self.elected.put,
            on_deposed=lambda: self.deposed.put(None),
            on_progress=self.heard.put,
            progress=lambda: {"pager": clock.now()},
            why_unfit=lambda: self.why_unfit,
            patience=1.0,
            clock=clock,
        )


@pytest.fixture
def candidate(kafka_cluster: KafkaCluster) -> Iterator[Callable[..., Candidate]]:
    made: list[Candidate] = []
    name = uuid.uuid4().hex[:8]

    def make(clock: Offset | None = None) -> Candidate:
        made.append(Candidate(kafka_cluster, name, clock or Offset()))
        made[-1].election.start()
        return made[-1]

    yield make
    for each in made:
        each.election.close()


def next_report(candidate: Candidate) -> datetime:
    """Return the first moment that a candidate hears from now on; before the first commit it hears none."""
    while not (progress := candidate.heard.get(timeout=LIMIT_S)):
        pass
    return progress["pager"]


def test_who_comes_first_leads_and_hands_over_when_it_leaves(candidate: Callable[..., Candidate]) -> None:
    first = candidate()
    assert first.elected.get(timeout=LIMIT_S) == {}
    second = candidate()
    assert next_report(second) <= datetime.now(UTC)
    assert second.elected.empty()
    left = datetime.now(UTC)
    first.election.close()
    first.deposed.get(timeout=LIMIT_S)
    assert second.elected.get(timeout=LIMIT_S)["pager"] >= left  # committed after its sinks had stopped
    assert (first.election.leader, second.election.leader) == (False, True)
    assert second.deposed.empty()


def test_a_leader_that_is_not_fit_gives_way_and_comes_back_to_stand_by(
    candidate: Callable[..., Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election, "_REST_S", 2.0)
    first = candidate()
    first.elected.get(timeout=LIMIT_S)
    second = candidate()
    next_report(second)
    first.why_unfit = "the disk is full"
    first.deposed.get(timeout=LIMIT_S)
    second.elected.get(timeout=LIMIT_S)
    next_report(first)
    assert (first.election.leader, second.election.leader) == (False, True)
    second.election.close()
    first.elected.get(timeout=LIMIT_S)  # an unfit one is better than none


def test_one_that_is_alone_leads_again_and_stays(
    candidate: Callable[..., Candidate], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(election, "_REST_S", 2.0)
    alone = candidate()
    alone.elected.get(timeout=LIMIT_S)
    alone.why_unfit = "blind"
    alone.deposed.get(timeout=LIMIT_S)
    alone.elected.get(timeout=LIMIT_S)
    with pytest.raises(queue.Empty):
        alone.deposed.get(timeout=3.0)


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_a_leaders_clock_that_is_wrong_does_not_hide_what_it_has_not_delivered(
    wrong: timedelta, candidate: Callable[..., Candidate]
) -> None:
    leader = candidate(Offset(wrong))
    leader.elected.get(timeout=LIMIT_S)
    follower = candidate()
    assert next_report(follower) <= datetime.now(UTC)
    leader.election.close()
    assert follower.elected.get(timeout=LIMIT_S)["pager"] <= datetime.now(UTC)
