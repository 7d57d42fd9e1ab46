"""The pure step, given any history of answers, outages, pauses, and topics that nobody follows any more."""

from datetime import UTC, datetime, timedelta

from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.metadata.state import JITTER, Moment, PollState, StepResult, Timing, step
from tests.property.worlds import NAMES, observations, snapshots
from tests.replay import apply

TIMING = Timing(interval=10.0, fetch_timeout=5.0, min_interval=0.25)
START = datetime(2024, 1, 1, tzinfo=UTC)


@frozen
class Pause:
    """Nothing comes."""


Happening = Observation | MetadataFetchError | Pause | frozenset[str]
History = list[tuple[Happening, float, float]]
"""What happens, after how many seconds, and what the next delay is multiplied by."""

happenings: st.SearchStrategy[Happening] = st.one_of(
    observations(),
    observations(honest=True),
    st.builds(MetadataFetchError, st.text()),
    st.builds(Pause),
    st.frozensets(st.sampled_from(NAMES), min_size=1),
)
histories = st.lists(
    st.tuples(happenings, st.sampled_from([1.0, 60.0, 320.0]), st.floats(*JITTER)), max_size=8
)
beginnings = st.none() | snapshots()
"""What is stored, if anything."""


@frozen
class Taken:
    """One step, before and after."""

    what: Happening
    at: Moment
    before: PollState
    after: PollState
    news: StepResult


def play(history: History, stored: Cluster | None) -> list[Taken]:
    seconds, sequence, taken = 0.0, 0, []
    state = PollState(timing=TIMING, since=0.0)
    if stored is not None:
        state = state.resumed(stored, START - timedelta(hours=1), None)
    for what, passes, jitter in history:
        seconds += passes
        at = Moment(seconds, START + timedelta(seconds=seconds), sequence)
        match what:
            case Pause():
                after, news = state.aged(at)
            case frozenset():
                after, news = state.without(what, at)
            case Observation():
                after, news = step(state, what, at.wall_time - timedelta(seconds=0.5), at, jitter)
            case _:
                after, news = step(state, what, at.wall_time, at, jitter)
        taken.append(Taken(what, at, state, after, news))
        state, sequence = after, sequence + len(news.events)
    return taken


@given(histories, beginnings)
def test_what_is_told_leads_from_snapshot_to_snapshot(history: History, stored: Cluster | None) -> None:
    for one in play(history, stored):
        known = one.before.known if one.after.confirmed and one.news.foreign is None else one.before.cluster
        if one.after.confirmed:
            assert apply(known, one.news.events) == one.after.cluster
        else:
            assert apply(known, one.news.events) == known, "nobody sees what is not confirmed"


@given(histories, beginnings)
def test_events_are_numbered_without_a_gap_and_bear_one_moment(
    history: History, stored: Cluster | None
) -> None:
    for one in play(history, stored):
        numbers = [event.sequence for event in one.news.events]
        assert numbers == list(range(one.at.sequence + 1, one.at.sequence + 1 + len(numbers)))
        for event in one.news.events:
            assert (event.observed_at, event.wall_time) == (one.at.monotonic, one.at.wall_time)
            assert event.previous_at is None or event.previous_at <= event.wall_time
            assert event.generation <= one.after.cluster.generation


@given(histories, beginnings)
def test_a_snapshot_is_usable_from_a_good_answer_on_until_it_is_too_old(
    history: History, stored: Cluster | None
) -> None:
    for one in play(history, stored):
        last = one.after.health.last_success
        if one.after.usable is None:
            assert last is None or one.after.health.stale
        else:
            assert last is not None
            age = one.at.monotonic - last
            assert age < one.after.timing.max_age or isinstance(one.what, frozenset)
        if one.after.usable is not one.before.usable:
            assert one.news.apply, "whoever routes by it is told"


@given(histories, beginnings)
def test_outages_and_staleness_begin_and_end_in_turn(history: History, stored: Cluster | None) -> None:
    out, stale = False, False
    for one in play(history, stored):
        for event in (*one.news.events, *one.news.rest):
            match event:
                case ev.MetadataUnavailable():
                    assert not out
                    out = True
                case ev.MetadataStale():
                    assert not stale
                    stale = True
                case ev.MetadataRecovered():
                    assert out or stale or (stored is not None and not one.before.confirmed)
                    out = stale = False
        assert (one.after.health.failures > 0, one.after.health.stale) == (out, stale)


@given(histories, beginnings)
def test_what_is_refused_whole_and_what_fails_leaves_what_is_known(
    history: History, stored: Cluster | None
) -> None:
    for one in play(history, stored):
        good = one.after.health.last_success != one.before.health.last_success
        if isinstance(one.what, frozenset) or good or one.news.foreign is not None:
            continue
        for name in ("known", "known_at", "asked", "doubted"):
            assert getattr(one.after, name) is getattr(one.before, name)
        assert one.after.memory.unlisted == one.before.memory.unlisted
        assert apply(one.before.known, one.news.events) == one.before.known


@given(histories, beginnings)
def test_the_same_history_is_taken_the_same_and_planned_within_limits(
    history: History, stored: Cluster | None
) -> None:
    once, again = play(history, stored), play(history, stored)
    assert [(one.after, one.news) for one in once] == [(one.after, one.news) for one in again]
    for one in once:
        if isinstance(one.what, Observation | MetadataFetchError):
            assert TIMING.floor <= one.after.health.next_delay <= TIMING.interval * JITTER[1]
