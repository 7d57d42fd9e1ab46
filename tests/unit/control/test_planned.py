"""Which change explains an event: a table of what was asked for, what happened when, and the answer.

Seconds count from the request of the change "chg-1". Clocks may differ by 5 s: each edge is so wide.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.control.protocol.records import Change, Order
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Kind, State
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.observe.planned import LABELLED, Label, Plans
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, START_MS, TOPIC, TOPIC_ID, growth
from tests.every_event import EVERY_EVENT

START = datetime.fromtimestamp(START_MS / 1_000, UTC)
BROKER_2 = Spec(kind=Kind.OFFLINE, cluster_id=CLUSTER, broker=2)
BACK_2 = evolve(BROKER_2, kind=Kind.ONLINE)
LEAVING_2 = Order(broker_offline=True)
OF_ONE = growth(kind=Kind.OFFLINE, partitions=frozenset({1}), from_count=0, to_count=0)


def change(spec: Spec, state: State = State.CONVERGING, number: int = 1, **fields: Any) -> Change:
    """A change that was requested at 0; moments are given in seconds."""
    moments = {name: START_MS + 1_000 * fields.pop(name) for name in [*fields] if name.endswith("_ms")}
    return Change(**{
        "change_id": f"chg-{number}", "number": number, "tracker_epoch": 1, "revision": 1, "state": state,
        "spec": spec, "requested_by": "alice", "requested_ms": START_MS, **moments, **fields,
    })  # fmt: skip


def between(after: float | None, by: float, cluster_id: str | None = CLUSTER) -> dict[str, Any]:
    """The stamp of an event that happened after one moment and by another one."""
    previous = None if after is None else START + timedelta(seconds=after)
    return {"cluster_id": cluster_id, "wall_time": START + timedelta(seconds=by), "previous_at": previous}


def sight(leaders: Sequence[int | None], topic_id: str | None = TOPIC_ID) -> Cluster:
    topics: dict[str, Any] = {TOPIC: {"id": topic_id, "partitions": leaders}}
    return cluster_of(topics, brokers=[1, 2, 3], cluster_id=CLUSTER)


def grew(
    old: int = 6,
    new: int = 12,
    *,
    after: float | None = 20,
    by: float = 30,
    topic_id: str | None = TOPIC_ID,
    cluster_id: str | None = CLUSTER,
) -> ev.Event:
    sizes = (sight([1] * count, topic_id) for count in (old, new))
    (event,) = diff(*sizes)
    return evolve(event, **between(after, by, cluster_id))


def of_brokers(old: list[int], new: list[int], *, after: float = 20, by: float = 30) -> ev.Event:
    (event,) = diff(*(cluster_of({}, brokers=brokers, cluster_id=CLUSTER) for brokers in (old, new)))
    return evolve(event, **between(after, by))


def led(
    old: int | None, new: int | None, *, partition: int = 0, after: float = 20, by: float = 30
) -> ev.Event:
    """Partition 0 or 1 of the topic gets another leader."""
    sights = (sight([1] * partition + [leader]) for leader in (old, new))
    (event,) = diff(*sights)
    return evolve(event, **between(after, by))


def answer(event: ev.Event, *changes: Change) -> str | None:
    """Return the change, "unplanned", or None for no label."""
    label = Plans(changes).label(event)
    return None if label is None else label.change_id or "unplanned"


WAITING = change(growth(), State.REQUESTED)
SEEN = change(growth(), State.CONVERGED, observed_ms=30, finished_ms=90)
ENDED = change(growth(), State.CANCELLED, finished_ms=60)


@pytest.mark.parametrize(
    ("what", "asked", "event", "told"),
    [
        ("nobody asked", [], grew(), "unplanned"),
        ("asked, and the tracker has not seen it yet", [WAITING], grew(), "chg-1"),
        ("asked, not approved", [evolve(WAITING, spec=growth(needs_approval=True))], grew(), "chg-1"),
        ("asked and seen", [SEEN], grew(), "chg-1"),
        ("nobody knows when it began", [SEEN], grew(after=None), "chg-1"),
        ("rolled back later", [evolve(SEEN, state=State.ROLLED_BACK)], grew(), "chg-1"),
        ("aborted later", [evolve(SEEN, state=State.REJECTED)], grew(), "chg-1"),
        ("to another count", [WAITING], grew(6, 9), "unplanned"),
        ("beyond it", [WAITING], grew(6, 16), "unplanned"),
        ("from another count", [WAITING], grew(4, 12), "unplanned"),
        ("of another topic of that name", [WAITING], grew(topic_id="another"), "unplanned"),
        ("nobody can tell the topic's id", [WAITING], grew(topic_id=None), "chg-1"),
        ("of another cluster", [WAITING], grew(cluster_id="c-2"), "unplanned"),
        ("of an unknown cluster", [WAITING], grew(cluster_id=None), None),
        ("found at first sight", [WAITING], evolve(grew(), initial=True), None),
        ("only followed", [change(growth(kind=Kind.OBSERVE), State.OBSERVED)], grew(), "unplanned"),
        ("refused at once", [evolve(ENDED, state=State.REJECTED, number=0)], grew(), "unplanned"),
        ("a limit is asked for", [change(growth(kind=Kind.DECREASE, from_count=12, to_count=6))],
            grew(), "unplanned"),
        ("beyond a limit", [change(growth(from_count=3), before=Order(limit=3))], grew(), "chg-1"),
        ("asked twice", [ENDED, change(growth(), State.APPROVED, 2, requested_ms=10)], grew(), "chg-2"),
        ("two at once", [SEEN, change(growth(from_count=12, to_count=24), number=2)], grew(6, 24), "chg-2"),
        ("two, one of them unasked", [change(growth(from_count=12, to_count=24))], grew(6, 24), "unplanned"),
    ],
)  # fmt: skip
def test_a_growth(what: str, asked: list[Change], event: ev.Event, told: str | None) -> None:
    assert answer(event, *asked) == told, what


@pytest.mark.parametrize(
    ("after", "by", "asked", "told"),
    [
        (-20, -5.001, WAITING, "unplanned"),  # before the request, whatever the clocks
        (-20, -5, WAITING, "chg-1"),
        (-20, 1_000, WAITING, "chg-1"),
        (34.999, 40, SEEN, "chg-1"),
        (35, 40, SEEN, "unplanned"),  # it had been seen before: another topic, if ids are not known
        (50, 70, ENDED, "chg-1"),  # it may have been before the cancellation
        (64.999, 70, ENDED, "chg-1"),
        (65, 70, ENDED, "unplanned"),
        (65, 70, evolve(ENDED, state=State.EXPIRED), "unplanned"),
        (65, 70, evolve(ENDED, state=State.REJECTED), "unplanned"),
        (None, 70, ENDED, "chg-1"),
    ],
)
def test_a_change_holds_from_its_request_until_its_end(
    after: float | None, by: float, asked: Change, told: str
) -> None:
    assert answer(grew(after=after, by=by), asked) == told


DRAINED = change(BROKER_2, State.CONVERGED, observed_ms=1, finished_ms=10, order=LEAVING_2)
RETURNING = change(BACK_2, State.CONVERGING, 2, requested_ms=100, observed_ms=101, before=LEAVING_2)
RETURNED = evolve(RETURNING, state=State.CONVERGED, finished_ms=START_MS + 110_000)
LEFT, CAME = [1, 2, 3], [1, 3]


@pytest.mark.parametrize(
    ("what", "asked", "event", "told"),
    [
        ("left, and nobody asked", [], of_brokers(LEFT, CAME), "unplanned"),
        ("left in the midst of it", [change(BROKER_2, order=LEAVING_2)], of_brokers(LEFT, CAME), "chg-1"),
        ("left when they had", [DRAINED], of_brokers(LEFT, CAME), "chg-1"),
        ("came", [DRAINED], of_brokers(CAME, LEFT), "chg-1"),
        ("another one left", [DRAINED], of_brokers([1, 2, 3], [1, 2]), "unplanned"),
        ("left a month later", [DRAINED], of_brokers(LEFT, CAME, after=2_600_000, by=2_600_010), "chg-1"),
        ("came when asked to", [DRAINED, RETURNED], of_brokers(CAME, LEFT, after=103, by=113), "chg-2"),
        ("left again then", [DRAINED, RETURNED], of_brokers(LEFT, CAME, after=107, by=117), "unplanned"),
        ("came again later", [DRAINED, RETURNED], of_brokers(CAME, LEFT, after=115, by=125), "unplanned"),
        ("came before that was approved", [DRAINED, evolve(RETURNING, observed_ms=None, order=LEAVING_2)],
            of_brokers(LEFT, CAME, after=200, by=210), "chg-1"),
        ("nothing came of it", [change(BROKER_2, State.CANCELLED, finished_ms=10)],
            of_brokers(LEFT, CAME), "unplanned"),
        ("rolled back", [change(BROKER_2, State.ROLLED_BACK, observed_ms=1, finished_ms=10)],
            of_brokers(LEFT, CAME), "unplanned"),
        ("its leaders moved", [DRAINED], led(2, 3), "chg-1"),
        ("leaders moved to it", [DRAINED], led(3, 2), "chg-1"),
        ("leaders moved away when it was to be back", [RETURNING], led(2, 3, after=102, by=110), "unplanned"),
        ("leaders moved to it when it was", [RETURNING], led(3, 2, after=102, by=110), "chg-2"),
        ("others moved", [DRAINED], led(1, 3), "unplanned"),
        ("it was the only replica", [DRAINED], led(2, None), "chg-1"),
        ("another one was", [DRAINED], led(3, None), "unplanned"),
        ("and is back", [DRAINED], led(None, 2), "chg-1"),
    ],
)  # fmt: skip
def test_work_on_a_broker(what: str, asked: list[Change], event: ev.Event, told: str) -> None:
    assert answer(event, *asked) == told, what


LEFT_ONE = change(OF_ONE, State.CONVERGED, observed_ms=1, finished_ms=10, order=Order(offline=frozenset({1})))


@pytest.mark.parametrize(
    ("what", "asked", "event", "told"),
    [
        ("offline", [LEFT_ONE], led(3, None, partition=1), "chg-1"),
        ("online", [LEFT_ONE], led(None, 3, partition=1), "chg-1"),
        ("another one", [LEFT_ONE], led(3, None), "unplanned"),
        ("of another topic of that name", [evolve(LEFT_ONE, spec=evolve(OF_ONE, topic_id="another"))],
            led(3, None, partition=1), "unplanned"),
        ("a growth ends no order",
            [LEFT_ONE, change(growth(), number=2, observed_ms=12, order=LEFT_ONE.order)],
            led(3, None, partition=1), "chg-1"),
        ("back, offline", [LEFT_ONE, change(evolve(OF_ONE, kind=Kind.ONLINE), number=2, observed_ms=12)],
            led(3, None, partition=1), "unplanned"),
    ],
)  # fmt: skip
def test_work_on_partitions(what: str, asked: list[Change], event: ev.Event, told: str) -> None:
    assert answer(event, *asked) == told, what


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: event.kind)
def test_what_nobody_can_ask_for_has_no_label(event: ev.Event) -> None:
    assert (Plans([]).label(event) is not None) == isinstance(event, LABELLED)


@given(st.integers(-50, 200), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_who_knows_less_of_when_it_was_finds_no_less_that_explains_it(
    after: int, lasts: int, sooner: int, later: int
) -> None:
    plans = Plans([SEEN, ENDED, DRAINED, evolve(RETURNED, number=3), LEFT_ONE])
    for make in (grew, _leaving, _offline):
        exact = plans.label(make(after=after, by=after + lasts))
        vague = plans.label(make(after=after - sooner, by=after + lasts + later))
        assert exact is not None
        assert vague is not None
        assert vague.planned >= exact.planned


def _leaving(*, after: float, by: float) -> ev.Event:
    return of_brokers(LEFT, CAME, after=after, by=by)


def _offline(*, after: float, by: float) -> ev.Event:
    return led(3, None, partition=1, after=after, by=by)


def test_a_label_says_who_has_asked() -> None:
    assert (Label("chg-1").planned, Label(None).planned) == (True, False)
