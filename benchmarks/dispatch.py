"""From the answer to the listeners: 1,000 of them, one stuck for ever."""

import threading
import time

from attrs import asdict

from benchmarks.measure import Spread, save
from kafka_partition_events import Event, MetadataPoller, PartitionChangeListener, PartitionOffline
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe

LISTENERS = 1_000


class Stopwatch(PartitionChangeListener):
    """Notes when it was told; the last one to be told opens the gate."""

    def __init__(self, arrivals: list[float], everybody: threading.Event) -> None:
        self.arrivals = arrivals
        self.everybody = everybody

    def on_partition_offline(self, event: PartitionOffline) -> None:
        self.arrivals.append(time.perf_counter())
        if len(self.arrivals) == LISTENERS - 1:
            self.everybody.set()


class Stuck(PartitionChangeListener):
    """Never returns from its first event."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def on_event(self, event: Event) -> None:
        self.release.wait()


def one_run() -> tuple[float, list[float]]:
    """Return the seconds of the publishing poll, and of every delivery after its begin."""
    healthy = observe({"orders": [1, 2, 3]})
    broken = observe({"orders": [1, None, 3]}, brokers=[1, 3])
    arrivals: list[float] = []
    everybody, stuck = threading.Event(), Stuck()
    poller = MetadataPoller(ScriptedSource(healthy, broken))
    poller.poll_once()
    registrations = [poller.register(Stopwatch(arrivals, everybody)) for _ in range(LISTENERS - 1)]
    poller.register(stuck)
    for registration in registrations:  # the replay is over, the workers wait
        registration.wait_synced(30)
    began = time.perf_counter()
    poller.poll_once()
    published = time.perf_counter() - began
    if not everybody.wait(60):
        raise SystemExit(f"only {len(arrivals)} of {LISTENERS - 1} listeners were told within 60 s")
    stuck.release.set()
    poller.close(30)
    return published, [moment - began for moment in arrivals]


def main(*, quick: bool = False) -> None:
    runs = [one_run() for _ in range(3 if quick else 9)]
    publish = Spread.of([published * 1e3 for published, _ in runs])
    first = Spread.of([min(times) * 1e3 for _, times in runs])
    median = Spread.of([sorted(times)[len(times) // 2] * 1e3 for _, times in runs])
    last = Spread.of([max(times) * 1e3 for _, times in runs])
    rows = [
        ["the poll that publishes (fetch scripted)", publish.text()],
        ["first listener told", first.text()],
        ["half of the listeners told", median.text()],
        ["all but the stuck one told", last.text()],
    ]
    raw = dict(
        zip(["publish", "first", "median", "last"], map(asdict, [publish, first, median, last]), strict=True)
    )
    save("dispatch", f"Event to listener, {LISTENERS:,} listeners, one stuck", ["moment", "ms"], rows, raw)


if __name__ == "__main__":
    main()
