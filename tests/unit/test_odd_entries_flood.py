"""Odd entries by the thousand, through reader, deliverers and all sinks: no thread ends, the rest goes on.

Events, digests and incidents. ``KPE_ODD_ENTRIES`` sets how many; `make odd-entries` takes 100,000.
"""

import copy
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
from attrs import evolve

from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.incidents import IncidentReader
from kafka_partition_events.incidents.reader import READER
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.outbox import Deliverer, Entry, Journal, Sink, Stream, Write
from kafka_partition_events.testing import ManualClock
from kafka_partition_events_listeners.kafka_sink import KafkaSink
from kafka_partition_events_listeners.mail.sink import SmtpSink
from kafka_partition_events_listeners.redaction import REDACTIONS
from kafka_partition_events_listeners.webhook.alertmanager import AlertmanagerSink
from kafka_partition_events_listeners.webhook.pagerduty import pagerduty_sink
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.incident_kit import START, World, suspected
from tests.outbox_kit import scratch_journal

COUNT = int(os.environ.get("KPE_ODD_ENTRIES", "2000"))
ROUND = 500
SEED = 19
FORMATS: dict[str, dict[str, Any]] = {
    "cloudevents": {"batch": 7},
    "alertmanager": {},
    "slack": {},
    "teams": {},
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


class Folding(World):
    """A world of which a look is told as a journal does it: what belongs together as one entry."""

    def look(self, at: float, **stamp: Any) -> list[Entry]:
        self.found: list[Event] = []
        super().look(at, **stamp)
        look = [Observed(event=event, recorded_at=event.wall_time) for event in self.found]
        return fold(look, observer="a", type_prefix="io.example.")

    def entry(self, event: Event, *, planned: bool | None = None) -> Entry:
        self.found.append(event)
        return super().entry(event, planned=planned)


def events_of(world: World) -> list[Entry]:
    entries = world.look(0)
    for broker in (3, 2):
        world.down(broker)
        entries += world.look(10)
        world.up(broker)
        entries += world.look(20)
    world.down(2)
    world.delete("single")
    return [*entries, *world.look(30), world.tell(suspected(1), 40)]


def real_entries() -> list[list[Entry]]:
    """Return single events, digests, and what incidents make of them."""
    topics = {"orders": [[1, 2], [2, 1], [2, 3]], "single": [[1], [2], [2]]}
    single, folded = (events_of(kind([1, 2, 3], topics)) for kind in (World, Folding))
    assert any(".v2" in entry.body.decode() for entry in folded)
    clock = ManualClock(wall=START)
    outbox: Journal = scratch_journal(clock=clock)
    reader = IncidentReader(outbox, clock=clock)
    outbox.subscribe("sink", Stream.INCIDENTS)
    outbox.write(Write(entries=single))
    for _ in range(3):
        while reader.run_once():
            pass
        clock.advance(600)
    incidents = outbox.read("sink", 1_000)
    assert {"incident.opened", "topic.deleted"} <= {entry.name for entry in incidents}
    return [single, folded, list(incidents)]


class Mails(SmtpSink):
    """Sends to a server that takes everything, if it can be written."""

    def __init__(self, got: Counter[str]) -> None:
        super().__init__("mail.example", sender="k@example.com", to=["noc@example.com"])
        self._got = got

    @contextmanager
    def _session(self) -> Iterator[Any]:
        yield SimpleNamespace(begin=lambda: None, sendmail=self._taken)

    def _taken(self, _from: str, _to: list[str], message: bytes) -> dict[str, Any]:
        assert message.startswith(b"From: ") or b"\nFrom: " in message
        self._got["mails"] += 1
        return {}


class Produced:
    """Takes the place of a producer: acknowledges at once."""

    def __init__(self, got: Counter[str]) -> None:
        self._got = got

    def produce(self, _topic: str, *, on_delivery: Any, **_: Any) -> None:
        self._got["records"] += 1
        on_delivery(None, None)

    def poll(self, _timeout: float) -> int:
        return 0


def sinks(got: Counter[str], clock: ManualClock) -> Iterator[Sink]:
    http: Any = {"transport": httpx.MockTransport(lambda request: taken(got, request))}
    for format_, options in FORMATS.items():
        for stream in Stream:
            name = f"{format_}-{stream}"
            url = "https://pager.example/"
            yield WebhookSink(url, name=name, stream=stream, format=format_, **http, **options)
    yield AlertmanagerSink(["http://am.example"], clock=clock, **http)
    yield pagerduty_sink("0" * 32, **http)
    yield Mails(got)
    producer: Any = Produced(got)
    for stream in Stream:
        yield KafkaSink(producer, name=f"kafka-{stream}", stream=stream, redact=REDACTIONS)


def test_odd_entries_by_the_thousand_end_no_thread() -> None:
    """Those that a format can't tell are refused, one by one; all others arrive, and incidents are told."""
    clock, dice, real = ManualClock(wall=START), random.Random(SEED), real_entries()
    outbox: Journal = scratch_journal(clock=clock)
    reader = IncidentReader(outbox, clock=clock)
    got: Counter[str] = Counter()
    deliverers = [Deliverer(outbox, sink, clock=clock) for sink in sinks(got, clock)]
    for deliverer in deliverers:
        deliverer.start()
    try:
        for begin in range(0, COUNT, ROUND):
            chosen = (dice.choice(dice.choice(real)) for _ in range(ROUND))
            outbox.write(Write(entries=[odd(dice, each, begin + n) for n, each in enumerate(chosen)]))
            while reader.run_once():
                pass
            for deliverer in deliverers:
                drain(outbox, deliverer)
    finally:
        for deliverer in deliverers:
            deliverer.close()
    assert reader.stats.failures == 0
    assert 0 < outbox.stats(READER).dead < COUNT
    assert {reason for d in deliverers for reason in d.stats.failures} == {"format"}
    assert all(0 < outbox.stats(d._name).dead < COUNT for d in deliverers if "cloudevents" not in d._name)
    assert got["requests"] > COUNT
    assert got["mails"] > COUNT / 10
    assert got["records"] > COUNT / 2


def taken(got: Counter[str], _request: httpx.Request) -> httpx.Response:
    got["requests"] += 1
    return httpx.Response(204)


def drain(outbox: Journal, deliverer: Deliverer) -> None:
    """Wait until a sink has had, or refused, all that there is for it."""
    pause = threading.Event()
    for _ in range(60_000):
        if not outbox.stats(deliverer._name).waiting:
            return
        assert deliverer.alive
        pause.wait(0.001)
    raise AssertionError(f"{deliverer._name} is stuck: {deliverer.stats}")
