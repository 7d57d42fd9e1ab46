"""Whatever happens: the reducer may be restored, asked and told twice at any point; every end is told."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.incidents import Rules, Silence
from kafka_partition_events.incidents.inputs import Happening
from kafka_partition_events.incidents.outputs import Notice
from kafka_partition_events.incidents.reducer import Reducer, Standing
from kafka_partition_events.incidents.state import decode, encode
from kafka_partition_events.metadata import events as ev
from tests.incident_kit import Told, World, cleared, happenings, moment, suspected, told_by

RULES = Rules(hold_down=30, broker_hold_down=40, update_interval=60, flap_window=120)
TOPICS = {"a": [[1], [2], [3]], "b": [[1, 2], [2, 3], [3, 1]], "c": [[2]]}
FINDINGS: dict[str, Callable[[int], ev.Event]] = {
    "suspect": suspected,
    "clear": cleared,
    "blind": lambda _: ev.MetadataUnavailable(error="no route"),
    "see": lambda _: ev.MetadataRecovered(attempts=1, blind_s=5.0),
}
QUIET_S = 10_000.0
LASTS_S = 101.0
"""The longest hold-down and the interval of updates, and a moment."""

BROKERS = st.sampled_from([1, 2, 3])
ACTIONS = st.one_of(
    st.tuples(st.just("down"), BROKERS),
    st.tuples(st.just("up"), BROKERS),
    st.tuples(st.just("delete"), st.sampled_from(sorted(TOPICS))),
    st.tuples(st.just("create"), st.sampled_from(sorted(TOPICS))),
    st.tuples(st.just("suspect"), BROKERS),
    st.tuples(st.just("clear"), BROKERS),
    st.tuples(st.just("blind"), st.just(0)),
    st.tuples(st.just("see"), st.just(0)),
    st.tuples(st.just("silence"), st.integers(0, 2)),
    st.tuples(st.just("unsilence"), st.integers(0, 2)),
)
GAPS = st.sampled_from([1.0, 5.0, 29.0, 30.0, 31.0, 60.0, 200.0])
MATCHERS: list[dict[str, Any]] = [{"broker": 2}, {"topic": "a|c"}, {"name": "*"}]


@define
class Step:
    at: float
    heard: list[Happening]
    silences: tuple[Silence, ...]


@define
class Log:
    """What happened in a world, in the end nothing bad any more, and when which silences existed."""

    steps: list[Step] = field(factory=list)


@st.composite
def logs(draw: st.DrawFn, *, well: bool = True) -> Log:
    """``well``: all is, in the end. Else what is down stays so, and nothing silences it."""
    world, log, silences = World([1, 2, 3], TOPICS), Log(), dict[str, Silence]()
    log.steps.append(Step(0.0, happenings(world.look(0.0)), ()))
    at = 0.0
    script = draw(st.lists(st.tuples(GAPS, ACTIONS), max_size=25))
    end = (
        [(1.0, ("up", b)) for b in (1, 2, 3)] + [(1.0, ("clear", b)) for b in (1, 2, 3)] + [(1.0, ("see", 0))]
    )
    if not well:
        script, end = [step for step in script if step[1][0] != "silence"], []
    for gap, (action, about) in [*script, *end]:
        at += gap
        log.steps.append(Step(at, _happened(world, silences, action, about, at), tuple(silences.values())))
    log.steps.append(Step(at + (QUIET_S if well else LASTS_S), [], tuple(silences.values())))
    return log


def _happened(
    world: World, silences: dict[str, Silence], action: str, about: Any, at: float
) -> list[Happening]:
    match action:
        case "down":
            world.down(about)
        case "up":
            world.up(about)
        case "delete" if about in world.topics:
            world.delete(about)
        case "create" if about not in world.topics:
            world.create(about, TOPICS[about])
        case "silence":
            since, until = moment(at), moment(at + 300)
            silences[f"s{about}"] = Silence(
                id=f"s{about}", author="me", reason="a test", since=since, until=until, **MATCHERS[about]
            )
        case "unsilence":
            silences.pop(f"s{about}", None)
        case _ if action in FINDINGS:
            return happenings([world.tell(FINDINGS[action](about), at)])
    return happenings(world.look(at))


def told_of(log: Log, *, restored: frozenset[int] = frozenset(), repeated: frozenset[int] = frozenset(),
            ticks: int = 0) -> tuple[list[Told], Reducer]:  # fmt: skip
    """Play a log; the numbers say after which happenings to restore the lane, and which to repeat."""
    reducer, told, number, before = Reducer(rules=RULES), list[Told](), 0, 0.0
    for step in log.steps:
        for n in range(ticks):  # in between, never at the moment of the step
            told += reducer.tick(moment(before + (step.at - before) * n / ticks))
        told += reducer.tick(moment(step.at) - timedelta.resolution)  # by what is silent up to now
        reducer.silences = step.silences
        for happening in step.heard:
            told += told_by(reducer, [happening] * (2 if number % 17 in repeated else 1))
            if number % 17 in restored:
                reducer = decode(encode(reducer), RULES)
                reducer.silences = step.silences
            number += 1
        told += reducer.tick(moment(step.at))
        before = step.at
    return told, reducer


NUMBERS = st.frozensets(st.integers(0, 16))


@given(logs(), NUMBERS)
def test_a_lane_that_is_restored_at_any_point_tells_the_same(log: Log, cuts: frozenset[int]) -> None:
    told, reducer = told_of(log)
    again, restored = told_of(log, restored=cuts)
    assert again == told
    assert restored.suppressed == reducer.suppressed


@given(logs(), NUMBERS)
def test_events_that_come_twice_count_once(log: Log, repeated: frozenset[int]) -> None:
    told, reducer = told_of(log)
    again, other = told_of(log, repeated=repeated)
    assert again == told
    assert other.suppressed == reducer.suppressed


@given(logs(), st.integers(1, 7))
def test_how_often_the_lane_is_asked_does_not_matter(log: Log, ticks: int) -> None:
    assert told_of(log, ticks=ticks)[0] == told_of(log)[0]


@given(logs())
def test_every_incident_that_was_told_is_closed_once_all_is_well(log: Log) -> None:
    told, reducer = told_of(log)
    assert reducer.standing == Standing()
    assert not reducer.troubles
    assert not reducer.mutes
    counted = Counter(
        (n.data["incident_id"], n.name) for n in told if isinstance(n, Notice) and "events" in n.data
    )
    for incident_id in {id_ for id_, _ in counted}:
        assert counted[incident_id, "incident.opened"] == 1
        assert counted[incident_id, "incident.closed"] == 1
    ids = [n.id for n in told]
    assert len(set(ids)) == len(ids)


@given(logs())
def test_an_incident_is_never_told_more_often_than_the_rules_say(log: Log) -> None:
    last: dict[str, Notice] = {}
    for notice in told_of(log)[0]:
        if isinstance(notice, Notice) and notice.name in {"incident.opened", "incident.updated"}:
            before = last.get(notice.correlation)
            if notice.name == "incident.updated":
                assert before is not None
                assert notice.at - before.at >= RULES.update_span
            last[notice.correlation] = notice


@given(logs(well=False))
def test_an_outage_that_lasts_is_told_whatever_came_before(log: Log) -> None:
    _, reducer = told_of(log)
    for trouble in reducer.troubles.values():
        if trouble.members:
            incident = trouble.incident
            assert incident is not None
            assert incident.told_at is not None
            assert incident.told_of == len(incident.concerned)


@given(logs())
def test_what_flaps_is_told_to_have_stopped(log: Log) -> None:
    counted = Counter((n.correlation, n.name) for n in told_of(log)[0] if isinstance(n, Notice))
    for flapping_id, name in list(counted):
        if name == "flapping.started":
            assert counted[flapping_id, "flapping.stopped"] == 1
