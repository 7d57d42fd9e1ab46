"""A sink in a producer process: which events it gets, in which order, and what is counted."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.outbox import DeliveryError, Entry, RetryPolicy
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from kafka_partition_events_listeners.sink_listener import PATIENCE, SinkListener
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.outbox_kit import ScriptedSink

URL = "https://hooks.example.com/T0K3N"
SEEN = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
BEFORE = SEEN - timedelta(seconds=30)


def orders(*leaders: int | None, isr: tuple[int, ...] = (), brokers: tuple[int, ...] = (1, 2)) -> Cluster:
    partitions = [{"leader": leader, "isr": isr} for leader in leaders]
    return cluster_of({"orders": {"partitions": partitions}}, brokers=brokers, cluster_id="c-1")  # type: ignore[dict-item]


def changes(old: Cluster, new: Cluster, **stamp: Any) -> tuple[ev.Event, ...]:
    return diff(old, new, **{"wall_time": SEEN, "previous_at": BEFORE, **stamp})


UP, DOWN = orders(1, 2), orders(1, None, brokers=(1,))


def hears(listener: SinkListener, happened: Iterable[ev.Event]) -> None:
    for event in happened:
        event.deliver(listener)
    listener.on_settled(UP, SEEN)


def posted(
    happened: Iterable[ev.Event], status: int = 200, retry: RetryPolicy = PATIENCE, **options: Any
) -> tuple[SinkListener, list[str]]:
    """Let a target that answers so be posted events; return the listener and the names of what came."""
    names: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        names.append(json.loads(request.content)["type"].split("-events.")[1].removesuffix(".v1"))
        return httpx.Response(status)

    listener = SinkListener(WebhookSink(URL, transport=httpx.MockTransport(answer), **options), retry=retry)
    hears(listener, happened)
    listener.close()
    return listener, names


@pytest.mark.parametrize(("dropped", "names"), [(0, []), (3, ["observer.resync"])])
def test_that_events_were_missed_is_posted_but_not_that_a_child_was_forked(
    dropped: int, names: list[str]
) -> None:
    resync = ev.Resync(cluster=UP, cluster_id="c-1", wall_time=SEEN, dropped=dropped)
    assert posted([resync])[1] == names


def test_what_the_target_declines_is_counted_and_does_not_hold_up_the_rest() -> None:
    listener, _ = posted(changes(UP, DOWN), 400, RetryPolicy(first_delay=1e-6))
    assert (listener.stats.lost, listener.stats.delivered) == (2, 0)
    assert listener.stats.failures == {"http_400": 6}


def test_an_event_is_given_up_when_the_target_has_been_away_for_too_long() -> None:
    with capture_logs() as logs:
        listener, _ = posted(
            changes(UP, DOWN), 503, RetryPolicy(first_delay=1e-6, max_delay=1e-6, max_age=1e-3)
        )
    assert (listener.stats.lost, listener.stats.delivered) == (2, 0)
    assert [log["event"] for log in logs] == ["events_lost"]


class Buggy:
    """Raises what it should not for batches with one entry; takes all others, two at a time."""

    name, batch = "buggy", 2

    def __init__(self) -> None:
        self.taken: list[str] = []

    def deliver(self, entries: Sequence[Entry], /) -> None:
        names = [entry.name for entry in entries]
        if "partition.online" in names:
            raise ZeroDivisionError
        self.taken += names

    def close(self) -> None:
        """Nothing is open."""


def test_a_bug_of_a_sink_costs_the_event_that_it_was_met_with() -> None:
    """And none that is in a batch with it."""
    sink = Buggy()
    listener = SinkListener(sink, retry=RetryPolicy(first_delay=1e-6))
    hears(listener, [*changes(UP, DOWN), *changes(DOWN, UP)])
    assert sink.taken == ["partition.offline", "broker.left", "broker.joined"]
    assert (listener.stats.delivered, listener.stats.lost, listener.stats.failures) == (3, 1, {"error": 2})


def test_a_refusal_costs_one_event_however_late_it_comes() -> None:
    clock = ManualClock()

    class Slow(ScriptedSink):
        def deliver(self, entries: Sequence[Entry], /) -> None:
            clock.advance(2 * PATIENCE.max_age)
            super().deliver(entries)

    listener = SinkListener(Slow(DeliveryError("no", reason="http_400", refused=True), batch=1), clock=clock)
    hears(listener, changes(UP, DOWN))
    assert (listener.stats.delivered, listener.stats.lost) == (1, 1)


def test_a_name_that_no_event_of_ours_has_is_pointed_out() -> None:
    with capture_logs() as logs:
        posted([], events=["partion.*", "partition.*"])
    assert [(log["event"], log["events"]) for log in logs] == [("webhook_events_unknown", ["partion.*"])]
