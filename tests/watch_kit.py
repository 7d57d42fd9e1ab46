"""A small cluster that things happen to, its journal, and a reader of that, all on one clock."""

import json
from datetime import datetime, timedelta
from typing import Any

from kafka_partition_events.incidents import IncidentReader, Rules, Silence, encode_silence
from kafka_partition_events.incidents.decisions import Decision, Verb, encode_decision
from kafka_partition_events.outbox import Entry, Journal, Stream, Write
from kafka_partition_events.testing import ManualClock
from tests.incident_kit import START, World
from tests.outbox_kit import scratch_journal

SINK = "a sink"


class Watch:
    """A world, its journal in an outbox, and a reader of it, all on one clock."""

    def __init__(self, outbox: Journal, clock: ManualClock, **rules: Any) -> None:
        self.outbox, self.clock, self.rules = outbox, clock, Rules(**rules)
        self.looked_to: datetime | None = None
        self.unassigned = set[int]()
        self.ahead = 0.0  # by how much the clock is wrong
        self.theirs: dict[str, bytes] | None = {}  # what another leader has told
        self.world = World([1, 2, 3], {"orders": [[1, 2], [2, 1]], "single": [[1], [2]]})
        self.look()
        self.reader = self.another_reader()

    def another_reader(self) -> IncidentReader:
        return IncidentReader(
            self.outbox,
            self.rules,
            clock=self.clock,
            looked_to=lambda: self.looked_to,
            is_unassigned=lambda broker: broker in self.unassigned,
            told_by_others=lambda: self.theirs,
        )

    def look(self) -> None:
        self.journal(self.world.look(self.clock.monotonic() + self.ahead))

    def journal(self, entries: list[Entry]) -> None:
        self.outbox.write(Write(entries=entries))

    def silence(self, **fields: Any) -> Silence:
        now = self.clock.now()
        made = Silence(
            id="s-1", author="ann", reason="disks", since=now, until=now + timedelta(seconds=300), **fields
        )
        self.outbox.write(Write(values={made.key: encode_silence(made)}))
        return made

    def decide(self, verb: Verb, reason: str) -> None:
        decision = Decision(verb=verb, cause="broker/2", at=self.clock.now(), author="ada", reason=reason)
        self.outbox.write(Write(values={decision.key: encode_decision(decision)}))

    def lead(self) -> None:
        """Be elected: what was told here so far has been passed over."""
        self.delivered()
        self.reader.lead(self.outbox.stats(SINK).cursor)

    def after(self, seconds: float) -> list[Entry]:
        """Let time pass, have the reader read, and return what is new for a sink."""
        self.clock.advance(seconds)
        return self.read()

    def read(self) -> list[Entry]:
        while self.reader.run_once():
            pass
        return self.delivered()

    def delivered(self) -> list[Entry]:
        entries = list(self.outbox.read(SINK, 1000))
        if entries:
            self.outbox.write(Write(cursors={SINK: entries[-1].seq}))
        return entries


def names(entries: list[Entry]) -> list[str]:
    return [entry.name for entry in entries]


def data(entry: Entry) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(entry.body)["data"]
    return parsed


def scratch_watch(**rules: Any) -> Watch:
    """Return one with an outbox that goes with it."""
    clock = ManualClock(wall=START)
    outbox = scratch_journal(clock=clock)
    outbox.subscribe(SINK, Stream.INCIDENTS)
    return Watch(outbox, clock, **rules)
