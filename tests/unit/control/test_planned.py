"""Which change explains an event: a table of what was asked for, what happened when, and the answer.

Seconds count from the request of the change "chg-1". Clocks may differ by 5 s: each edge is so wide.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.observe.planned import Plans, may_be_planned
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, START_MS, TOPIC, TOPIC_ID, growth

START = datetime.fromtimestamp(START_MS / 1_000, UTC)


def change(spec: Spec, state: State = State.CONVERGING, number: int = 1, **fields: Any) -> Change:
    """A change that was requested at 0; moments are given in seconds."""
    moments = {name: START_MS + 1_000 * fields.pop(name) for name in [*fields] if name.endswith("_ms")}
    return Change(**{
        "change_id": f"chg-{number}", "tracker_epoch": 1, "revision": 2, "state": state,
        "spec": spec, "requested_by": "alice", "requested_ms": START_MS, **moments, **fields,
    })  # fmt: skip


def between(after: float | None, by: float, cluster_id: str | None = CLUSTER) -> dict[str, Any]:
    """The stamp of an event that happened after one moment and by another one."""
    previous = None if after is None else START + timedelta(seconds=after)
    return {"cluster_id": cluster_id, "wall_time": START + timedelta(seconds=by), "previous_at": previous}


def sight(leaders: Sequence[int | None], topic_id: str | None = TOPIC_ID) -> Cluster:
    topics: dict[str, Any] = {TOPIC: {"id": topic_id, "partitions": leaders}}
    return cluster_of(topics, brokers=[1, 2, 3], cluster_id=CLUSTER)


def grew(old: int = 6, new: int = 12, topic_id: str | None = TOPIC_ID, **when: Any) -> ev.Event:
    sizes = (sight([1] * count, topic_id) for count in (old, new))
    (event,) = diff(*sizes)
    return evolve(event, **between(**{"after": 20, "by": 30, **when}))


def answer(event: ev.Event, *changes: Change) -> str | None:
    """Return the change, "unplanned", or None for no label."""
    if not may_be_planned(event):
        return None
    change = Plans(changes).change_of(event)
    return "unplanned" if change is None else change.change_id


WAITING = change(growth(), State.REQUESTED)
SEEN = change(growth(), State.CONVERGED, observed_ms=30, finished_ms=90)
ENDED = change(growth(), State.CANCELLED, finished_ms=60)


@pytest.mark.parametrize(
    ("what", "asked", "event", "told"),
    [
        ("nobody asked", [], grew(), "unplanned"),
        ("asked, and the tracker has not seen it yet", [WAITING], grew(), "chg-1"),
        ("asked and seen", [SEEN], grew(), "chg-1"),
        ("nobody knows when it began", [SEEN], grew(after=None), "chg-1"),
        ("aborted later", [evolve(SEEN, state=State.REJECTED)], grew(), "chg-1"),
        ("to another count", [WAITING], grew(6, 9), "unplanned"),
        ("beyond it", [WAITING], grew(6, 16), "unplanned"),
        ("from another count", [WAITING], grew(4, 12), "unplanned"),
        ("of another topic of that name", [WAITING], grew(topic_id="another"), "unplanned"),
        ("nobody can tell the topic's id", [WAITING], grew(topic_id=None), "chg-1"),
        ("of another cluster", [WAITING], grew(cluster_id="c-2"), "unplanned"),
        ("of an unknown cluster", [WAITING], grew(cluster_id=None), None),
        ("found at first sight", [WAITING], evolve(grew(), initial=True), None),
        ("refused at once", [evolve(ENDED, state=State.REJECTED, revision=1)], grew(), "unplanned"),
        ("asked twice", [ENDED, change(growth(), State.REQUESTED, 2, requested_ms=10)], grew(), "chg-2"),
        ("two at once", [SEEN, change(growth(from_count=12, to_count=24), number=2, requested_ms=1)],
            grew(6, 24), "chg-2"),
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
def test_a_change_holds_from_request_to_end(after: float | None, by: float, asked: Change, told: str) -> None:
    assert answer(grew(after=after, by=by), asked) == told
