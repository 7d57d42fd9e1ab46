"""One run: a fresh topic, one or more loading processes, a fault, the repair, and the topic read back."""

import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import frozen

from benchmarks.faults import metrics
from benchmarks.faults.inject import INJECT, Order, repair, sleep_until
from benchmarks.faults.java_load import java_command
from benchmarks.faults.load import FINISH_LIMIT_S
from benchmarks.faults.plan import PRODUCERS, Scenario
from benchmarks.faults.spec import LoadSpec
from benchmarks.faults.stored import read_back
from benchmarks.faults.tape import EXCLUSIONS, Tape, exclusions_of
from benchmarks.load_process import loading
from benchmarks.measure import stolen
from kafka_partition_events.testing import KafkaCluster

_NS = 1_000_000_000
_HEAD_START_S = 0.2


@frozen
class Bench:
    """What all runs share."""

    cluster: KafkaCluster
    java_classpath: str | None


@frozen
class Done:
    """What the processes left behind: tapes, the time frame, and the share of time that was stolen."""

    tapes: list[Tape]
    window: metrics.Window
    complete: bool
    steal: float


def run_once(bench: Bench, scenario: Scenario, producer: str, number: int) -> metrics.Run:
    """Do one run of the round with this number.

    Raises:
        BenchError: the producer could not be run; the cluster is repaired all the same.
        KitError: the cluster is beyond repair.
    """
    run = uuid.uuid4().hex[:8]
    topic = f"{scenario.name}-{run}"
    layout = scenario.layout
    broker = number % layout.brokers + 1  # all producers of a round meet the same
    config = {"min.insync.replicas": str(layout.min_insync)}
    bench.cluster.create_topic(topic, config=config, assignment=layout.assignment())
    with tempfile.TemporaryDirectory(prefix="bench-faults-") as scratch:
        specs = [
            LoadSpec(
                producer=producer,
                bootstrap=bench.cluster.bootstrap_servers,
                topic=topic,
                run=run,
                index=index,
                rate=scenario.rate,
                records=scenario.records,
                keyed=scenario.keyed,
                acks=layout.acks,
                delivery_limit_ms=layout.delivery_limit_ms,
                request_limit_ms=layout.request_limit_ms,
                warm_up_s=layout.warm_up_s,
                out=Path(scratch) / f"{index}.tape",
            )
            for index in range(scenario.instances)
        ]
        try:
            done = _load_and_disturb(bench, scenario, specs, broker)
        finally:
            repair(bench.cluster)
    sent = scenario.records * scenario.instances
    stored = read_back(bench.cluster.bootstrap_servers, topic, layout.partitions, run, sent)
    bench.cluster.delete_topic(topic)
    return _summary(scenario, number, broker, done, stored)


def _load_and_disturb(bench: Bench, scenario: Scenario, specs: Sequence[LoadSpec], broker: int) -> Done:
    with ExitStack() as opened:
        loads = [opened.enter_context(loading(_command(spec, bench), spec.out)) for spec in specs]
        for load in loads:
            load.await_ready()
        begin = time.monotonic_ns() + round((scenario.layout.warm_up_s + _HEAD_START_S) * _NS)
        end = begin + round(scenario.seconds * _NS)
        for load in loads:
            load.begin(begin)
        sleep_until(begin)
        stolen_before = stolen()
        sleep_until(begin + round(scenario.layout.calm_s * _NS))
        injected = INJECT[scenario.fault.name](Order(bench.cluster, broker, end))
        elapsed = (time.monotonic_ns() - begin) / _NS
        steal = (stolen() - stolen_before) / (elapsed * (os.cpu_count() or 1))
        for load in loads:
            load.await_end(FINISH_LIMIT_S + 20.0)
    return Done(
        tapes=[Tape.read(spec.out) for spec in specs],
        window=metrics.Window(begin, injected.at_ns, end),
        complete=injected.complete,
        steal=round(steal, 4),
    )


def _command(spec: LoadSpec, bench: Bench) -> list[str]:
    if not PRODUCERS[spec.producer].java:
        return [sys.executable, "-m", "benchmarks.faults.load", *spec.words()]
    assert bench.java_classpath is not None  # noqa: S101 - compiled if any producer needs it
    return java_command(spec, bench.java_classpath)


def _summary(
    scenario: Scenario, number: int, broker: int, done: Done, stored: "Counter[tuple[int, int]]"
) -> metrics.Run:
    records = [
        record
        for index, tape in enumerate(done.tapes)
        for record in metrics.records_of(tape, index, stored, scenario.layout)
    ]
    window = done.window
    faulty = broker if scenario.fault.hits_one else None
    exclusions = _sum(done.tapes, EXCLUSIONS)
    of_faulty = 0 if faulty is None else _sum(done.tapes, exclusions_of(faulty)) or 0
    return metrics.Run(
        round=number,
        figures=metrics.Figures.of(records, window.fault_ns, faulty),
        before_p99_ms=metrics.before_p99_ms(records, window.fault_ns),
        achieved=metrics.achieved(records, window, scenario.rate * scenario.instances),
        behind_ms=max(metrics.behind_ms(tape.sent, window.begin_ns, scenario.rate) for tape in done.tapes),
        in_flight=metrics.in_flight(records, window.fault_ns),
        steal=done.steal,
        complete=done.complete,
        reported_again=sum(tape.reported_again for tape in done.tapes),
        errors=metrics.errors_of(records),
        counters="; ".join(tape.counters for tape in done.tapes if tape.counters),
        series=metrics.latency_series(records, window) if scenario.plot == "latency" else "",
        exclusions=exclusions,
        exclusions_elsewhere=None if exclusions is None else max(0, exclusions - of_faulty),
    )


def _sum(tapes: Sequence[Tape], measure: str) -> int | None:
    """Return the sum of a measure over those that have it; None if none has."""
    values = [tape.measures[measure] for tape in tapes if measure in tape.measures]
    return round(sum(values)) if values else None
