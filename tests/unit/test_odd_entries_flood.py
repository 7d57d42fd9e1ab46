"""Odd entries by the thousand, through reader, deliverers and all formats: no thread ends, the rest goes on.

``KPE_ODD_ENTRIES`` sets how many; 100,000 take some minutes.
"""

import copy
import json
import os
import random
import threading
from collections import Counter
from typing import Any

import httpx
from attrs import evolve

from kafka_partition_events.incidents import IncidentReader
from kafka_partition_events.incidents.reader import READER
from kafka_partition_events.outbox import Deliverer, Entry, Journal, Stream, Write
from kafka_partition_events.testing import ManualClock
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


def real_entries() -> list[Entry]:
    world = World([1, 2, 3], {"orders": [[1, 2], [2, 1]], "single": [[1], [2]]})
    entries = world.look(0)
    for broker in (3, 2):
        world.down(broker)
        entries += world.look(10)
        world.up(broker)
        entries += world.look(20)
    world.delete("single")
    return [*entries, *world.look(30), world.tell(suspected(1), 40)]


def test_odd_entries_by_the_thousand_end_no_thread() -> None:
    """Those that a format can't tell are refused, one by one; all others arrive, and incidents are told."""
    clock, dice, real = ManualClock(wall=START), random.Random(SEED), real_entries()
    outbox: Journal = scratch_journal(clock=clock)
    reader = IncidentReader(outbox, clock=clock)
    got: Counter[str] = Counter()
    deliverers = [
        Deliverer(
            outbox,
            WebhookSink(
                "https://pager.example/",
                name=f"{format_}-{stream}",
                stream=stream,
                format=format_,
                transport=httpx.MockTransport(lambda request: taken(got, request)),
                **options,
            ),
            clock=clock,
        )
        for format_, options in FORMATS.items()
        for stream in Stream
    ]
    for deliverer in deliverers:
        deliverer.start()
    try:
        for begin in range(0, COUNT, ROUND):
            outbox.write(Write(entries=[odd(dice, dice.choice(real), begin + n) for n in range(ROUND)]))
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
    assert got["requests"] > COUNT


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
