"""One run: a fresh topic, one or more loading processes, a fault, the repair, and the topic read back."""

import json
import os
import tempfile
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

from benchmarks.faults import metrics
from benchmarks.faults.inject import INJECT, Order, busy, repair, sleep_until
from benchmarks.faults.java_load import java_command
from benchmarks.faults.load import FINISH_LIMIT_S
from benchmarks.faults.plan import PRODUCERS, Scenario
from benchmarks.faults.spec import LoadSpec, key_of
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
    """What the processes left behind: tape, time frame, the share of time that was stolen, what was read."""

    tape: Tape
    window: metrics.Window
    complete: bool
    steal: float
    read: list[tuple[int, int]]


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
        spec = LoadSpec(
            producer=producer,
            bootstrap=bench.cluster.bootstrap_servers,
            topic=topic,
            run=run,
            rate=scenario.rate,
            records=scenario.records,
            keyed=scenario.keyed,
            skewed=scenario.skewed,
            acks=layout.acks,
            delivery_limit_ms=layout.delivery_limit_ms,
            request_limit_ms=layout.request_limit_ms,
            warm_up_s=layout.warm_up_s,
            out=Path(scratch) / "load.tape",
        )
        try:
            done = _load_and_disturb(bench, scenario, spec, broker)
        finally:
            repair(bench.cluster)
    stored = read_back(bench.cluster.bootstrap_servers, topic, layout.partitions, run, scenario.records)
    bench.cluster.delete_topic(topic)
    return _summary(scenario, number, broker, done, stored)


def _load_and_disturb(bench: Bench, scenario: Scenario, spec: LoadSpec, broker: int) -> Done:
    with ExitStack() as opened:
        loads = [opened.enter_context(loading(_command(spec, bench), spec.out))]
        if scenario.read:
            reads = evolve(spec, out=spec.out.with_suffix(".read"))
            loads.append(opened.enter_context(loading(reads.command("reader"), reads.out)))
        for load in loads:
            load.await_ready()
        begin = time.monotonic_ns() + round((scenario.layout.warm_up_s + _HEAD_START_S) * _NS)
        end = begin + round(scenario.seconds * _NS)
        for load in loads:
            load.begin(begin)
        sleep_until(begin)
        opened.enter_context(busy(scenario.busy_cores, end))
        stolen_before = stolen()
        sleep_until(begin + round(scenario.layout.calm_s * _NS))
        injected = INJECT[scenario.fault.name](Order(bench.cluster, broker, end))
        elapsed = (time.monotonic_ns() - begin) / _NS
        steal = (stolen() - stolen_before) / (elapsed * (os.cpu_count() or 1))
        for load in loads:
            load.await_end(FINISH_LIMIT_S + 20.0)
    return Done(
        tape=Tape.read(spec.out),
        read=json.loads(reads.out.read_text(encoding="utf-8")) if scenario.read else [],
        window=metrics.Window(begin, injected.at_ns, end),
        complete=injected.complete,
        steal=round(steal, 4),
    )


def _command(spec: LoadSpec, bench: Bench) -> list[str]:
    if not PRODUCERS[spec.producer].java:
        return spec.command("load")
    assert bench.java_classpath is not None  # noqa: S101 - compiled if any producer needs it
    return java_command(spec, bench.java_classpath)


def _summary(scenario: Scenario, number: int, broker: int, done: Done, stored: "Counter[int]") -> metrics.Run:
    tape, window = done.tape, done.window
    records = metrics.records_of(tape, stored, scenario.layout)
    faulty = broker if scenario.fault.hits_one else None
    exclusions = tape.measures.get(EXCLUSIONS)
    of_faulty = 0 if faulty is None else tape.measures.get(exclusions_of(faulty), 0)
    its_key = partial(key_of, keyed=scenario.keyed, skewed=scenario.skewed)
    return metrics.Run(
        round=number,
        figures=metrics.Figures.of(records, window.fault_ns, faulty),
        before_p99_ms=metrics.before_p99_ms(records, window.fault_ns),
        achieved=metrics.achieved(records, window, scenario.rate),
        behind_ms=metrics.behind_ms(tape.sent, window.begin_ns, scenario.rate),
        in_flight=metrics.in_flight(records, window.fault_ns),
        steal=done.steal,
        complete=done.complete,
        reported_again=tape.reported_again,
        errors=metrics.errors_of(records),
        counters=tape.counters,
        series=metrics.latency_series(records, window) if scenario.plot == "latency" else "",
        exclusions=None if exclusions is None else round(exclusions),
        exclusions_elsewhere=None if exclusions is None else max(0, round(exclusions - of_faulty)),
        reading=metrics.Reading.of(done.read, tape, window.fault_ns, its_key) if done.read else None,
    )
