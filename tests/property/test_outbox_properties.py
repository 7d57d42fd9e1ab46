"""An outbox beside a plain list, whatever is done to them in whatever order."""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attrs import define, frozen
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, entry, ids, size_of
from tests.property.examples import scaled

MAX_BYTES = 120 * 1024

batches = st.lists(
    st.builds(
        lambda number, size: entry(str(number), body=b"x" * size), st.integers(0, 99), st.integers(0, 3000)
    ),
    max_size=15,
)
readers = st.sampled_from(["a", "b", "c"])
names = st.sampled_from(["x", "x/1", "x/2", "y"])


@frozen
class Kept:
    """What the model remembers of an entry."""

    seq: float
    id: str


@define
class Reader:
    cursor: int = 0
    dropped: int = 0
    dead: int = 0


class OutboxMachine(RuleBasedStateMachine):
    """An outbox, the list of what it is to hold, and what it is to tell about its readers."""

    @initialize()
    def begin(self) -> None:
        self.kept: list[Kept] = []
        self.readers: dict[str, Reader] = {}
        self.small: dict[str, bytes] = {}
        self.dead: set[str] = set()
        self.directory = tempfile.TemporaryDirectory()
        self.start()

    def start(self) -> None:
        path = Path(self.directory.name) / "outbox.db"
        self.outbox = SqliteOutbox(path, max_bytes=MAX_BYTES, clock=ManualClock(wall=NOW))

    @rule()
    def restart(self) -> None:
        self.outbox.close()
        self.start()

    @rule(entries=batches)
    def append(self, entries: list[Entry]) -> None:
        known = {k.id for k in self.kept}
        fresh = {e.id: e for e in reversed(entries) if e.id not in known}
        self.outbox.write(entries)
        # Those of this write have no place that the model knows: all are after every cursor.
        added = [Kept(math.inf, e.id) for e in entries if fresh.get(e.id) is e]
        self.prune([*self.kept, *added])

    def prune(self, before: Sequence[Kept]) -> None:
        after = [Kept(e.seq, e.id) for e in self.outbox.history()]
        left = {k.id for k in after}
        dropped = [k for k in before if k.id not in left]
        assert [k.id for k in before] == [k.id for k in (*dropped, *after)], "oldest first"
        self.dead &= left
        assert size_of(self.outbox) <= MAX_BYTES
        for reader in self.readers.values():
            reader.dropped += sum(k.seq > reader.cursor for k in dropped)
        self.kept = after

    @rule(name=readers)
    def subscribe(self, name: str) -> None:
        self.outbox.subscribe(name)
        if name not in self.readers:
            self.readers[name] = Reader(self.outbox.last_seq)

    def waiting(self, reader: Reader) -> list[Kept]:
        return [k for k in self.kept if k.seq > reader.cursor]

    @precondition(lambda self: self.readers)
    @rule(name=readers, count=st.integers(1, 5), refuse=st.booleans(), value=st.binary(max_size=3))
    def advance(self, name: str, count: int, refuse: bool, value: bytes) -> None:
        reader = self.readers.get(name)
        entries = [] if reader is None else self.outbox.read(name, count)
        if reader is None or not entries:
            return
        if refuse:
            self.outbox.refuse(name, entries[0])
            reader.cursor = entries[0].seq
            reader.dead += 1
            self.dead.add(entries[0].id)
        else:
            self.outbox.write(cursors={name: entries[-1].seq}, values={"y": value})
            reader.cursor = entries[-1].seq
            self.small["y"] = value

    @rule(name=names, value=st.none() | st.binary(max_size=3))
    def put(self, name: str, value: bytes | None) -> None:
        self.outbox.write(values={name: value})
        self.small.pop(name, None)
        if value is not None:
            self.small[name] = value

    @invariant()
    def readers_find_what_the_list_says(self) -> None:
        for name, reader in self.readers.items():
            waiting = self.waiting(reader)
            assert ids(self.outbox.read(name, 1000)) == [k.id for k in waiting]
            assert ids(self.outbox.read(name, 2)) == [k.id for k in waiting[:2]]
            stats = self.outbox.stats(name)
            assert (stats.waiting, stats.dropped, stats.dead) == (len(waiting), reader.dropped, reader.dead)
            assert (stats.oldest is None) == (not waiting)

    @invariant()
    def the_rest_is_as_it_was_put(self) -> None:
        assert self.outbox.values("") == self.small
        assert self.outbox.values("x/") == {n: v for n, v in self.small.items() if n.startswith("x/")}

    @invariant()
    def dead_letters_are_those_of_the_entries_that_are_left(self) -> None:
        assert ids(self.outbox.dead_letters()) == [k.id for k in self.kept if k.id in self.dead]

    def teardown(self) -> None:
        if hasattr(self, "outbox"):
            self.outbox.close()
            self.directory.cleanup()


TestSqliteOutbox = OutboxMachine.TestCase
TestSqliteOutbox.settings = settings(max_examples=scaled(50), stateful_step_count=30, deadline=None)
