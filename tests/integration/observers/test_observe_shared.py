"""What was said to one observer is known to whoever leads next: silences, decisions, and what is open."""

import contextlib
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafka_partition_events.testing import KafkaCluster
from tests.observe_kit import TAKE_OVER_S, Observer, Reader, election, kafka_sink

pytestmark = pytest.mark.kafka

SOON = '[incidents]\nhold_down = "2s"\nbroker_hold_down = "2s"\n'


def test_a_new_observer_ends_what_a_dead_one_has_told_and_knows_what_was_decided(
    cluster: KafkaCluster, observer: Callable[..., Observer]
) -> None:
    name = uuid.uuid4().hex[:8]
    cluster.create_topic(f"orders-{name}", assignment={0: [2], 1: [1]})
    cluster.create_topic(f"told-{name}", assignment={0: [1, 3]})
    cluster.create_topic(f"quiet-{name}", assignment={0: [3]})
    more = SOON + kafka_sink(f"told-{name}", "incidents") + election(name)
    with contextlib.closing(Reader(cluster, f"told-{name}", partitions=1)) as reader:
        first = observer("first", more, topics=f"(orders|quiet)-{name}").start()
        first.wait_until("elected", first.feeds)
        second = observer("second", more, topics=f"(orders|quiet)-{name}").start().ready()
        silence = second.kpe(
            "silence", "add", "--topics", f"quiet-{name}", "--event",
            "topic.deleted", "--for", "1h", "--reason", "a test", "--author", "ada",
        ).strip()  # fmt: skip
        first.wait_until("told the silence", lambda: silence in silences(first))
        cluster.kill(2)
        try:
            first.wait_until("told", lambda: bool(reader.named("incident.opened")))
            second.wait_until("seen by the second", lambda: bool(incidents(second)))
            (seen,) = incidents(second)
            decide = ("--reason", "it is being mended", "--author", "ada")
            second.kpe("incident", "ack", str(seen["incident_id"]), *decide)
            first.wait_until("acknowledged", lambda: bool(reader.named("incident.acknowledged")))
            for each in (first, second):
                each.kill()
        finally:
            cluster.restart(2)
        # Its outbox is new, and the outage over: nothing tells it that there was one.
        third = observer("third", more, topics=f"(orders|quiet)-{name}").start().ready()
        third.wait_until("told the end", lambda: bool(reader.named("incident.closed")), limit=TAKE_OVER_S)
        cluster.delete_topic(f"quiet-{name}")
        third.wait_until("seen", lambda: third.metric("kpe_events_total", event="topic.deleted") == 1.0)
        cluster.create_topic(f"orders-{name}-2", 1, 1)
        assert silence in silences(third)
        third.kpe("silence", "rm", silence)
        third.wait_until("gone", lambda: silence not in silences(third))
        (opened,), (acked,), (closed,) = (
            reader.named(f"incident.{verb}") for verb in ("opened", "acknowledged", "closed")
        )
        assert acked["data"]["acknowledged_for"] == "it is being mended"
        assert opened["data"]["incident_id"] == closed["data"]["incident_id"]
        assert closed["data"]["reason"] == "over when another observer took over"
        assert reader.named("topic.deleted") == []


def silences(observer: Observer) -> str:
    return observer.kpe("silence", "ls")


def incidents(observer: Observer) -> list[dict[str, Any]]:
    listed = observer.kpe("incident", "ls", "--output", "jsonl")
    return [json.loads(line) for line in listed.splitlines()]
