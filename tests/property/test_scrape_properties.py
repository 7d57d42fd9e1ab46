"""What a scrape tells of a snapshot: the same, whichever snapshot was scraped before it."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.durations import Durations
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.reconcile import Memory, reconcile
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events_listeners.prometheus.snapshot import NOTHING, readings_of, tally
from tests.property.worlds import observations, snapshots

STEP_S = 20.0
LIMITS = st.integers(0, 3)


def snapshots_after(answers: Iterable[tuple[Observation, bool]]) -> list[Cluster]:
    """Return a poller's snapshots after some answers, those that are scraped; they share what is the same."""
    cluster, memory = EMPTY, Memory()
    scraped: list[Cluster] = []
    for n, (answer, is_scraped) in enumerate(answers):
        now = n * STEP_S
        outcome = reconcile(cluster, answer, memory, now)
        cluster, memory = outcome.cluster, outcome.memory
        if is_scraped:
            scraped.append(cluster)
    return scraped


def check(scraped: list[Cluster], max_topics: int) -> None:
    last = NOTHING
    for cluster in scraped:
        counted = tally(cluster, last)
        assert [*readings_of(counted, max_topics)] == [*readings_of(tally(cluster), max_topics)]
        last = counted


@given(st.lists(st.tuples(observations(), st.booleans()), max_size=12), LIMITS)
def test_of_one_poller(answers: list[tuple[Observation, bool]], max_topics: int) -> None:
    check(snapshots_after(answers), max_topics)


@given(st.lists(snapshots(), max_size=6), LIMITS)
def test_of_snapshots_that_share_nothing(scraped: list[Cluster], max_topics: int) -> None:
    check(scraped, max_topics)


@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0.001, 90), unique=True).map(sorted))
def test_each_bucket_has_what_took_at_most_so_long(seconds: list[float], bounds: list[float]) -> None:
    durations = Durations(tuple(bounds)).plus(*seconds)
    assert list(durations.at_most())[:-1] == [(b, sum(s <= b for s in seconds)) for b in bounds]
    assert durations.count == len(seconds)
