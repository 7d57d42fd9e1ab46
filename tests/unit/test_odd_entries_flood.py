"""Odd entries by the thousand, through deliverers and all sinks: no thread ends, the rest goes on.

Events and digests. ``KPE_ODD_ENTRIES`` sets how many; `make odd-entries` takes 100,000.
"""

import copy
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from attrs import evolve

from kafka_partition_events.outbox import Deliverer, Entry, Sink, SqliteOutbox, Write
from kafka_partition_events.testing import ManualClock
from kafka_partition_events_listeners.kafka_sink import KafkaSink
from kafka_partition_events_listeners.webhook.client import Target
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.outbox_kit import scratch_journal
from tests.world_kit import START, real_entries

COUNT = int(os.environ.get("KPE_ODD_ENTRIES", "2000"))
ROUND = 500
SEED = 19
FORMATS: dict[str, dict[str, Any]] = {
    "cloudevents": {},
    "template": {"template": '{"name": {{ name | tojson }}, "topic": {{ data.topic | tojson }}}'},
}
ODD: list[Any] = [
    None, True, -1, 10**400, 1e308, "", "\ud800", "9" * 5000, "\x1b[2J", "0-99999999999", "0-2,",
    "2026-13-01T00:00:00Z", "+292278994-08-17T07:12:55Z", [], [[]], [1, "a", None], {}, {"": None},
    {"after": 1}, {"a": {"b": {"c": []}}},
]  # fmt: skip


def odd(dice: random.Random, entry: Entry, number: int) -> Entry:
    """Return a real entry in which one to three values, wherever they lie, are something else or are gone."""
    document = json.loads(entry.body)
    for _ in range(dice.randint(1, 3)):
        place: Any = document
        while isinstance(place, dict | list) and place:
            key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
            inner = place[key]
            if not (isinstance(inner, dict | list) and inner) or dice.random() < 0.3:
                if dice.random() < 0.2:
                    del place[key]
                else:
                    place[key] = copy.deepcopy(dice.choice(ODD))
                break
            place = inner
    body = json.dumps(document).encode() if dice.random() < 0.98 else dice.randbytes(40)
    return evolve(entry, id=f"odd-{number}", body=body)


class Produced:
    """Takes the place of a producer: acknowledges at once."""

    def __init__(self, got: Counter[str]) -> None:
        self._got = got

    def produce(self, _topic: str, *, on_delivery: Any, **_: Any) -> None:
        self._got["records"] += 1
        on_delivery(None, None)

    def poll(self, _timeout: float) -> int:
        return 0

    def purge(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def sinks(got: Counter[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    def post(_target: Target, body: bytes, _headers: object) -> httpx.Response:
        got["requests"] += 1
        return httpx.Response(204)

    monkeypatch.setattr(Target, "post", post)
    for format_, options in FORMATS.items():
        yield WebhookSink("https://pager.example/", name=format_, events=["*"], **options)
    monkeypatch.setattr(KafkaSink, "_made", lambda _sink: Produced(got))
    yield KafkaSink({}, name="kafka")


@pytest.mark.slow
def test_odd_entries_by_the_thousand_end_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that a format can't tell are refused, one by one; all others arrive."""
    clock, dice, real = ManualClock(wall=START), random.Random(SEED), real_entries()
    outbox = scratch_journal(clock=clock)
    got: Counter[str] = Counter()
    deliverers = [Deliverer(outbox, sink, clock=clock) for sink in sinks(got, monkeypatch)]
    for deliverer in deliverers:
        deliverer.start()
    try:
        for begin in range(0, COUNT, ROUND):
            chosen = (dice.choice(dice.choice(real)) for _ in range(ROUND))
            outbox.write(Write(entries=[odd(dice, each, begin + n) for n, each in enumerate(chosen)]))
            for deliverer in deliverers:
                drain(outbox, deliverer, clock)
    finally:
        for deliverer in deliverers:
            deliverer.close()
    assert {reason for d in deliverers for reason in d.stats.failures} == {"format"}
    assert 0 < outbox.stats("template").dead < COUNT
    assert got["requests"] > COUNT / 10
    assert got["records"] > COUNT / 2


def drain(outbox: SqliteOutbox, deliverer: Deliverer, clock: ManualClock) -> None:
    """Wait until a sink has had, or refused, all that there is for it."""
    pause = threading.Event()
    for _ in range(60_000):
        if not outbox.stats(deliverer._name).waiting:
            return
        assert deliverer.alive
        clock.advance(0.5)
        pause.wait(0.001)
    raise AssertionError(f"{deliverer._name} is stuck: {deliverer.stats}")
