"""From an answer that lacks a broker to the last event of the last of 100 listeners; and its memory."""

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import evolve

from benchmarks.errors import BenchError
from benchmarks.events.rows import Row, inverse
from benchmarks.events.world import TOPICS, observation
from benchmarks.measure import Spread, interleaved, memory_mib
from kafka_partition_events import Event, MetadataPoller, Observation, PartitionChangeListener

LISTENERS = 100
_EVENTS = 8_001
_LIMIT_S = 120.0
_RESET = Path("/proc/self/clear_refs")


class Prepared:
    """A source whose next answer lies ready: so the clock starts when a client would have decoded it."""

    def __init__(self) -> None:
        self._look = 0
        self.arrived_at = 0.0
        self.prepare()

    def prepare(self) -> None:
        """Make the next answer: the broker is there, gone, there and so on."""
        self._answer = observation(self._look, lost=self._look % 2 == 1)
        self._look += 1

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        answer = evolve(self._answer, started_at=started_at)
        self.arrived_at = time.perf_counter()
        return answer

    def close(self) -> None:
        """Hold nothing."""


class Stopwatch(PartitionChangeListener):
    """Counts events, and notes when the last one came."""

    def __init__(self) -> None:
        self.heard = 0
        self.last_at = 0.0

    def on_event(self, event: Event) -> None:
        self.heard += 1
        self.last_at = time.perf_counter()


class InTurn(PartitionChangeListener):
    """The peer: calls everybody in turn, on one thread, without queues of their own."""

    def __init__(self, listeners: Sequence[PartitionChangeListener]) -> None:
        self._listeners = listeners

    def on_event(self, event: Event) -> None:
        for listener in self._listeners:
            event.deliver(listener)


class Rig:
    """A poller, and listeners that wait for the loss of a broker."""

    def __init__(self, listeners: Sequence[Stopwatch], registered: Sequence[PartitionChangeListener]) -> None:
        self.source = Prepared()
        self.poller = MetadataPoller(self.source)
        self.poller.poll_once()
        self._listeners = listeners
        self._registrations = [self.poller.register(listener) for listener in registered]
        self._await_all()

    def listen(self, listeners: Sequence[Stopwatch]) -> None:
        """Register listeners, and wait until they know the state."""
        self._listeners = listeners
        self._registrations = [self.poller.register(listener) for listener in listeners]
        self._await_all()

    def lose(self) -> float:
        """Lose the broker; return the seconds from the answer to the last event of the last listener."""
        self.source.prepare()
        heard = [listener.heard for listener in self._listeners]
        self.look()
        told = {now.heard - before for now, before in zip(self._listeners, heard, strict=True)}
        if told != {_EVENTS}:
            raise BenchError(f"each listener should hear of {_EVENTS:,} events, but they heard of {told}")
        seconds = max(listener.last_at for listener in self._listeners) - self.source.arrived_at
        self.source.prepare()
        self.look()  # it is back
        return seconds

    def look(self) -> None:
        """Poll, and wait until everybody was told."""
        self.poller.poll_once()
        self._await_all()

    def _await_all(self) -> None:
        if not all(registration.wait_synced(_LIMIT_S) for registration in self._registrations):
            raise BenchError(f"not all listeners were told within {_LIMIT_S:.0f} s")

    def close(self) -> None:
        self.poller.close(_LIMIT_S)


def _each(count: int) -> Rig:
    listeners = [Stopwatch() for _ in range(count)]
    return Rig(listeners, listeners)


def _in_turn(count: int) -> Rig:
    listeners = [Stopwatch() for _ in range(count)]
    return Rig(listeners, [InTurn(listeners)])


def measure(*, quick: bool) -> Iterator[Row]:
    each, in_turn = _each(LISTENERS), _in_turn(LISTENERS)
    pair = interleaved(each.lose, in_turn.lose, 2 if quick else 7)
    each.close()
    in_turn.close()
    yield Row(
        what=f"from the answer to the last of {_EVENTS:,} events of the last of {LISTENERS} listeners",
        unit="s",
        ours=pair.a,
        peer=("one thread calls all in turn", pair.b),
        ratio=inverse(pair.ratio),
        digits=2,
        extra={"discarded": pair.discarded},
    )
    yield from _memory(1 if quick else 3)


# -- memory, in a process of its own -------------------------------------------------------------------


def _memory(runs: int) -> Iterator[Row]:
    many, one = ([_child(count) for _ in range(runs)] for count in (LISTENERS, 1))
    names = {
        "peak": "peak of the process during the loss, two answers and the snapshot included",
        "listeners": f"added by {LISTENERS} listeners that were told of {TOPICS:,} topics",
        "loss": "allocated by the loss: events, snapshot, queues",
    }
    for name, what in names.items():
        ours, peer = (Spread.of([run[name] for run in found]) for found in (many, one))
        yield Row(what=what, unit="MB", ours=ours, peer=("1 listener", peer), digits=1)


def _child(listeners: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.events.dispatching", str(listeners)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _one_process(count: int) -> None:
    rig = Rig([], [])
    before = memory_mib()
    rig.listen([Stopwatch() for _ in range(count)])
    registered = memory_mib()
    _RESET.write_text("5", encoding="ascii")  # the peak from here on
    rig.lose()
    peak = memory_mib(name="VmHWM")
    rig.source.prepare()
    tracemalloc.start()
    rig.look()
    allocated = tracemalloc.get_traced_memory()[1] / 1e6
    print(json.dumps({"peak": peak, "loss": allocated, "listeners": registered - before}))
    rig.close()


if __name__ == "__main__":
    _one_process(int(sys.argv[1]))
