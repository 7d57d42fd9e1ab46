"""What a scrape tells of a snapshot: the same, whichever snapshot was scraped before it."""

from collections.abc import Iterable

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.durations import Durations
from kafka_partition_events.metadata.reconcile import Memory, reconcile
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events_listeners.prometheus.snapshot import NOTHING, Detail, read_snapshot
from tests.property.worlds import observations, snapshots

STEP_S = 20.0
DETAILS = st.builds(
    Detail,
    granularity=st.sampled_from(["cluster", "topic", "partition"]),
    max_topics=st.integers(0, 3),
    max_partitions=st.integers(0, 12),
    kafka_exporter=st.booleans(),
)


def snapshots_after(answers: Iterable[tuple[Observation, bool]]) -> list[Cluster]:
    """Return a poller's snapshots after some answers, those that are scraped; they share what is the same."""
    cluster, memory = EMPTY, Memory()
    scraped: list[Cluster] = []
    for n, (answer, is_scraped) in enumerate(answers):
        now = n * STEP_S
        outcome = reconcile(cluster, evolve(answer, started_at=now), memory, now)
        cluster, memory = outcome.cluster, outcome.memory
        if is_scraped:
            scraped.append(cluster)
    return scraped


def check(scraped: list[Cluster], detail: Detail) -> None:
    last = NOTHING
    for cluster in scraped:
        found = read_snapshot(cluster, detail, last)
        assert found == read_snapshot(cluster, detail)
        last = found.tally


@given(st.lists(st.tuples(observations(), st.booleans()), max_size=12), DETAILS)
def test_of_one_poller(answers: list[tuple[Observation, bool]], detail: Detail) -> None:
    check(snapshots_after(answers), detail)


@given(st.lists(snapshots(), max_size=6), DETAILS)
def test_of_snapshots_that_share_nothing(scraped: list[Cluster], detail: Detail) -> None:
    check(scraped, detail)


@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0.001, 90), unique=True).map(sorted))
def test_each_bucket_has_what_took_at_most_so_long(seconds: list[float], bounds: list[float]) -> None:
    durations = Durations(tuple(bounds)).plus(*seconds)
    assert list(durations.at_most())[:-1] == [(b, sum(s <= b for s in seconds)) for b in bounds]
    assert durations.count == len(seconds)
