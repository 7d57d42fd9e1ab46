"""Metrics of the tracker and of open changes."""

import re

from attrs import evolve
from prometheus_client import CollectorRegistry, generate_latest

from kafka_partition_events.control.changes.controller import Decision
from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change
from kafka_partition_events.control.protocol.vocabulary import Verb
from kafka_partition_events.control.tracker.status import TrackerStatus
from kafka_partition_events_listeners.prometheus.changes import MOST_CHANGES, ChangeCollector
from tests.control_kit import ONE, START_MS, UNREAD, Story, gated, grown, growth, lease


def exposed(status: TrackerStatus) -> dict[str, float]:
    """Return what is told, without the label of the cluster, which all have."""
    registry = CollectorRegistry()
    registry.register(ChangeCollector(lambda: evolve(status, cluster_id="prod")))
    told = {}
    for line in generate_latest(registry).decode().splitlines():
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            assert 'kafka_cluster="prod"' in series
            told[re.sub(r'kafka_cluster="prod",?', "", series).replace("{}", "")] = float(value)
    return told


def of(change: Change, now_ms: int) -> dict[str, float]:
    """Return what is told of one change."""
    told = exposed(TrackerStatus(elected=True, now_ms=now_ms, changes={change.change_id: change}))
    label = f'change_id="{change.change_id}"'
    return {name.partition("{")[0]: value for name, value in told.items() if label in name}


def test_a_change_is_told_from_request_to_gate() -> None:
    story = Story()
    story.lives("abc")
    story.request(gated())
    instances = [f"kpe_change_{kind}_instances" for kind in ("pending", "applied", "capped")]
    none_yet = dict.fromkeys(["kpe_change_gate_held_seconds", "kpe_change_uncovered_groups", *instances], 0)
    told = of(story.change, story.now_ms + 2_500)
    assert told == {"kpe_change_info": 1, "kpe_change_age_seconds": 2.5, **none_yet}
    story.says("ab", Status.HELD)
    story.sees(count=12)
    story.tick()
    told = of(story.change, story.now_ms + 30_000)
    assert told["kpe_change_gate_held_seconds"] == 30
    assert told["kpe_change_pending_instances"] == 3
    assert told["kpe_change_uncovered_groups"] == 1
    assert told["kpe_change_deadline_timestamp_seconds"] == (story.now_ms + 600_000) / 1_000


def test_each_answer_counts_once() -> None:
    story = grown(growth(), "abcdef", UNREAD)
    for name, status in zip("abcd", Status, strict=True):
        story.says(name, status)
    story.tick()
    told = of(story.change, story.now_ms)
    kinds = ("pending", "applied", "capped")
    assert {kind: told[f"kpe_change_{kind}_instances"] for kind in kinds} == {
        "pending": 4, "applied": 1, "capped": 1
    }  # fmt: skip


def test_there_are_series_of_so_many_changes_only() -> None:
    story = Story()
    story.request(gated())
    many = {
        f"chg-{n}": evolve(story.change, change_id=f"chg-{n}", requested_ms=START_MS + n)
        for n in range(MOST_CHANGES + 5)
    }
    told = exposed(TrackerStatus(elected=True, now_ms=START_MS, changes=many))
    ages = [name for name in told if name.startswith("kpe_change_age")]
    assert len(ages) == MOST_CHANGES
    assert f'kpe_change_age_seconds{{change_id="chg-{MOST_CHANGES}"}}' not in told


def test_who_stands_by_tells_of_no_changes_but_of_what_it_has_counted() -> None:
    status = TrackerStatus(elected=True, setbacks=2, skipped={"version": 3})
    told = exposed(status.standing_by("the control topics are gone"))
    assert told["kpe_tracker_elected"] == 0
    assert told["kpe_tracker_setbacks_total"] == 2
    assert told['kpe_control_records_skipped_total{reason="version"}'] == 3
    assert not [name for name in told if name.startswith(("kpe_changes", "kpe_change_age", "kpe_instances"))]


def test_rounds_are_counted() -> None:
    story, ledger = Story(), Ledger()
    story.request(gated())
    story.command(Verb.CANCEL, change_id="no-such")
    ledger.take_change(story.change)
    ledger.take_lease(lease("a"), story.now_ms)
    decision = Decision(at_ms=story.now_ms, moved=[story.change], refusals=story.refused)
    told = exposed(TrackerStatus().after(decision, ledger, "prod"))
    assert told["kpe_tracker_elected"] == 1
    assert told['kpe_changes{state="requested"}'] == 1
    assert told['kpe_changes{state="converged"}'] == 0
    assert told["kpe_commands_refused_total"] == 1
    assert told['kpe_instances{role="producer"}'] == 1
    assert told[f'kpe_change_info{{change_id="{ONE}",state="requested",topic="orders"}}'] == 1
