"""One changed partition among 200,000 in 5,000 topics: reconcile + diff + compile, time and peak memory."""

import json
import subprocess
import sys
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

from kafka_partition_events import Cluster, Node, Observation, PartitionInfo, TopicInfo, diff
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.reconcile import Memory, reconcile
from kafka_partition_events.routing.table import Route, compile_routes

TOPICS, PARTITIONS, BROKERS = 5_000, 40, 100


def observation(*, changed: bool) -> Observation:
    """Return a fresh answer, no object shared with the one before, as a source would make it."""
    topics = {}
    for t in range(TOPICS):
        name = f"topic-{t:05d}"
        partitions = []
        for p in range(PARTITIONS):
            replicas = tuple((t + p + i) % BROKERS for i in range(3))
            moved = changed and t == TOPICS // 2 and p == 7
            leader = replicas[1] if moved else replicas[0]
            partitions.append(PartitionInfo(name, p, leader, replicas, replicas, 6 if moved else 5))
        topics[name] = TopicInfo(name, tuple(partitions), f"id-{t}")
    nodes = tuple(Node(i, f"broker-{i}", 9092, f"rack-{i % 3}") for i in range(BROKERS))
    return Observation(nodes=nodes, topics=topics, cluster_id="bench")


def step(old: Cluster, table: dict[str, Route], seen: Observation, memory: Memory) -> tuple[int, list[float]]:
    """Do what the poller does with an answer; return the number of events and the stages' seconds."""
    marks = [time.thread_time()]
    outcome = reconcile(old, seen, memory, 1.0)
    marks.append(time.thread_time())
    events = diff(old, outcome.cluster)
    marks.append(time.thread_time())
    compile_routes(outcome.cluster, None, table)
    marks.append(time.thread_time())
    return len(events), [b - a for a, b in pairwise(marks)]


def peak_mb() -> float:
    """Return this process's peak memory. (``ru_maxrss`` would begin with that of the process that forked.)"""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def one_process() -> None:
    """Measure in a process of its own, so that the peak memory is of this and nothing else."""
    idle_mb = peak_mb()
    first = reconcile(EMPTY, observation(changed=False), Memory(), 0.0)
    table = compile_routes(first.cluster)
    seen = observation(changed=True)
    events, stages = step(first.cluster, table, seen, first.memory)
    full_mb = peak_mb()
    tracemalloc.start()
    step(first.cluster, table, seen, first.memory)
    extra_mb = tracemalloc.get_traced_memory()[1] / 1e6
    print(json.dumps([events, stages, idle_mb, full_mb, extra_mb]))


def main(*, quick: bool = False) -> None:
    from attrs import asdict  # noqa: PLC0415 - keep the measured process small

    from benchmarks.measure import Spread, save  # noqa: PLC0415

    runs = []
    for _ in range(2 if quick else 7):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.metadata"], capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout))
    if any(events != 1 for events, *_ in runs):
        raise SystemExit(f"one partition changed, but the diff had {[events for events, *_ in runs]} events")
    names = ("reconcile", "diff", "compile")
    spreads = {name: Spread.of([stages[i] for _, stages, *_ in runs]) for i, name in enumerate(names)}
    spreads["all three"] = Spread.of([sum(stages) for _, stages, *_ in runs])
    rows = [[name, f"{spread.text(3)} s"] for name, spread in spreads.items()]
    memory = {
        "peak of the process, two answers and the snapshot included": Spread.of([run[3] for run in runs]),
        "of that, the interpreter and the imports": Spread.of([run[2] for run in runs]),
        "allocated by the three steps": Spread.of([run[4] for run in runs]),
    }
    rows += [[name, f"{spread.text(1)} MB"] for name, spread in memory.items()]
    save(
        "metadata",
        f"One changed partition among {TOPICS * PARTITIONS:,} ({TOPICS:,} topics, RF 3)",
        ["step", "CPU time, memory"],
        rows,
        {name: asdict(spread) for name, spread in {**spreads, **memory}.items()},
    )


if __name__ == "__main__":
    one_process()
