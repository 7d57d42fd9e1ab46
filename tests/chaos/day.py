"""A day on a clock that jumps, a fault a minute: does anything grow? ::

    python -m tests.chaos.day               an observer, then a producer's judgement of brokers; some minutes
    python -m tests.chaos.day --hours 2     a short one

The observer is the whole service (poller, journal, a webhook, metrics that are scraped) with a
scripted cluster of six brokers and 2,400 partitions, in which each minute a broker is lost, a topic grows, is
deleted, created or created anew, or no answer comes. The producer is an `AdaptivePartitioner` that a modelled
producer asks for each of its 100 records a second; each minute a broker stands still, is slow or restarts.

Exit codes: 0 memory, threads, files and the outbox are flat; 1 something has grown: it is listed.
"""

import argparse
import gc
import heapq
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from attrs import astuple, evolve, field, frozen
from prometheus_client import generate_latest

from benchmarks.measure import memory_mib
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.observe.service import Service
from kafka_partition_events.observe.settings import (
    Http,
    Kafka,
    Observer,
    Outbox,
    Settings,
    WebhookSinkSettings,
)
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import observe
from tests.deliveries_kit import judged
from tests.feedback_simulator import Fault, Restarted, Simulation, Slow, _Run, once
from tests.world_kit import World

BROKERS = range(1, 7)
TOPICS, PARTITIONS, MOST_PARTITIONS = 200, 12, 24
FAULT_S = 20
HOUR_S = 3_600
RATE = 100.0
_CATCH_UP_S = 30.0
GROWS = {"MB": (1.25, 10.0), "threads": (1.0, 2.0), "files": (1.0, 5.0), "outbox MB": (1.5, 5.0)}
"""What the last third of the samples may have more than the second one: times, and in all."""


@frozen
class Sample:
    """What this process takes: memory and outbox in MB."""

    mb: float
    threads: int
    files: int
    outbox_mb: float = 0.0

    @classmethod
    def now(cls, outbox: Path | None = None) -> "Sample":
        gc.collect()
        size = sum(file.stat().st_size for file in outbox.parent.iterdir()) / 1e6 if outbox else 0.0
        return cls(memory_mib(), threading.active_count(), len(list(Path("/proc/self/fd").iterdir())), size)


def grown(samples: Sequence[Sample]) -> Iterator[str]:
    """Yield what has grown between the second third of the samples and the last one."""
    third = len(samples) // 3
    for name, values in zip(GROWS, zip(*map(astuple, samples), strict=True), strict=True):
        before, after = (max(values[i * third : (i + 1) * third]) for i in (1, 2))
        times, more = GROWS[name]
        if after > before * times + more:
            yield f"{name}: {before:.1f}, then {after:.1f}"


# -- an observer -----------------------------------------------------------------------------------------


@frozen
class Cluster:
    """A metadata source over a scripted cluster."""

    world: World
    state: list[bool] = field(factory=lambda: [True])

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        if not self.state[0]:
            raise MetadataFetchError("nobody answers")
        seen = observe(self.world.topics, sorted(self.world.brokers), cluster_id="day")
        return evolve(seen, started_at=started_at, requested=topics)

    def close(self) -> None:
        """Nothing to close."""


def made_world() -> World:
    replicas = [[b % 6 + 1, (b + 1) % 6 + 1, (b + 2) % 6 + 1] for b in range(PARTITIONS)]
    alone = [[b % 6 + 1] for b in range(PARTITIONS)]
    return World(BROKERS, {f"topic-{t:03d}": alone if t % 10 == 0 else replicas for t in range(TOPICS)})


@contextmanager
def fault(cluster: Cluster, rng: random.Random) -> Iterator[None]:
    """Let something happen that is over at the end, if it ends at all."""
    world, topic = cluster.world, f"topic-{rng.randrange(TOPICS):03d}"
    what = rng.choice(("broker", "broker", "two brokers", "silence", "growth", "deletion", "creation anew"))
    lost = rng.sample(list(BROKERS), 2 if what == "two brokers" else 1 if what == "broker" else 0)
    partitions = [list(p.replicas) for p in world.topics[topic].partitions]
    cluster.state[0] = what != "silence"
    world.down(*lost)
    if what == "growth" and len(partitions) < MOST_PARTITIONS:
        world.grow(topic, partitions[:1])
    elif what == "deletion":
        world.delete(topic)
    elif what in {"creation anew", "growth"}:
        world.create(topic, partitions[:PARTITIONS])
    yield
    cluster.state[0] = True
    world.up(*lost)
    if what == "deletion":
        world.create(topic, partitions[:PARTITIONS])


class _Taker(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Keep quiet."""


@contextmanager
def webhook() -> Iterator[str]:
    """Have a target in a process of its own, for what it takes is not the observer's."""
    words = [sys.executable, "-m", "tests.chaos.day", "--take"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as taker:
        try:
            yield f"http://127.0.0.1:{taker.stdout.readline().strip() if taker.stdout else 0}/"
        finally:
            taker.terminate()


def take() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Taker)
    print(server.server_address[1], flush=True)  # noqa: T201 - for the process that started this one
    server.serve_forever()


def observers_day(hours: int, rng: random.Random) -> list[Sample]:
    clock, cluster, samples = ManualClock(), Cluster(made_world()), []
    with tempfile.TemporaryDirectory() as directory, webhook() as url:
        outbox = Path(directory, "outbox", "kpe.db")
        outbox.parent.mkdir()
        settings = Settings(
            kafka=Kafka(bootstrap_servers="x:1"),
            observer=Observer(name="day"),
            outbox=Outbox(path=str(outbox), max_age=HOUR_S),
            http=Http(listen=("127.0.0.1", 0)),
            sinks=(WebhookSinkSettings(name="pager", url=url),),
        )
        with Service(settings, lambda _kafka: cluster, clock=clock) as service:
            for hour in range(hours):
                began = time.monotonic()
                for _ in range(60):
                    with fault(cluster, rng):
                        pass_time(clock, FAULT_S)
                    pass_time(clock, 60 - FAULT_S)
                    generate_latest(service._registry)
                deadline = time.monotonic() + _CATCH_UP_S  # no time passes for the observer meanwhile
                while (why := service.why_not_live() or service.why_not_ready()) is not None:
                    if time.monotonic() > deadline:
                        raise SystemExit(f"the observer is ill in hour {hour + 1}: {why}")
                    time.sleep(0.1)
                samples.append(Sample.now(outbox))
                say("observer", hour, samples[-1], began)
    return samples


def pass_time(clock: ManualClock, seconds: int) -> None:
    """Let time pass, second by second, so that what is to be done in between is done."""
    for _ in range(seconds):
        clock.advance(1.0)
        clock.wait_for_waiters(2, timeout=60.0)  # the poller, and the sink
        time.sleep(0.0005)


# -- a producer's judgement of brokers -------------------------------------------------------------------


class _Day:
    """One partitioner, for as many simulated hours as there are."""

    def __init__(self) -> None:
        self.run: _Run | None = None
        self.partitioner = AdaptivePartitioner(rng=random.Random(1), clock=self.clock)
        self.deliveries = judged(self.partitioner, self.clock)
        self.deliveries.wait_for_batches(0.005)
        self.deliveries.wait_for_replicas()
        self.deliveries.has_standby(1)

    def clock(self) -> float:
        return 0.0 if self.run is None else self.run.clock()

    def hour(self, number: int, faults: dict[int, list[Fault]]) -> int:
        """Let an hour pass, and what is outstanding at its end be answered; return the number of records."""
        hour = Simulation(
            seed=number,
            seconds=HOUR_S - 60.0,
            rate=RATE,
            replication=3,
            ways=2,
            faults=faults,
            start=float(number * HOUR_S),
        )
        self.run = run = _Run(hour)
        run.partitioner, run.deliveries, run.generation = self.partitioner, self.deliveries, number * 10_000
        run.apply_snapshot(-1.0)
        records = run.run().records
        while run.reports:
            run.now = max(run.now, heapq.nsmallest(1, run.reports)[0][0])
            run.poll()
        return records


def producers_day(hours: int, rng: random.Random) -> list[Sample]:
    day, samples = _Day(), []
    for hour in range(hours):
        began, faults = time.monotonic(), dict[int, list[Fault]]()
        for minute in range(1, 59):
            since, broker = minute * 60.0, rng.randrange(1, 4)
            kinds: tuple[Fault, ...] = (
                once(since, rng.uniform(0.2, 8.0)),
                Slow(since=since, more=rng.uniform(0.02, 0.5), until=since + FAULT_S),
                Restarted(since=since, seconds=rng.uniform(2.0, FAULT_S)),
            )
            faults.setdefault(broker, []).append(rng.choice(kinds))
        records = day.hour(hour, faults)
        day.run = None
        samples.append(Sample.now())
        say(f"producer, {records:,} records", hour, samples[-1], began)
    return samples


def say(who: str, hour: int, sample: Sample, began: float) -> None:
    print(  # noqa: T201
        f"{who}, hour {hour + 1}: {sample.mb:.1f} MB, {sample.threads} threads, {sample.files} files, "
        f"outbox {sample.outbox_mb:.1f} MB ({time.monotonic() - began:.1f} s)",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.day", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--hours", type=int, default=24, help="of simulated time (24)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--take", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.take:
        take()
    found = []
    for who, live in (("producer", producers_day), ("observer", observers_day)):
        samples = live(given.hours, random.Random(given.seed))
        found += [f"{who}: {growth}" for growth in grown(samples)]
    print("\n".join(found) or "flat")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
