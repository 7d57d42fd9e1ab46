"""One run: a fresh topic, one process or more that load it, and what they and the brokers have used."""

import os
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.errors import BenchError
from benchmarks.faults.inject import sleep_until
from benchmarks.faults.tape import Tape
from benchmarks.kip480.load import Spec
from benchmarks.kip480.metrics import Run, run_of
from benchmarks.kip480.plan import DRAIN_S, WARM_UP_S, Cell, assignment
from benchmarks.load_process import loading
from benchmarks.measure import cpu_seconds_of, stolen
from kafka_partition_events.testing import KafkaCluster

_NS = 1_000_000_000
_HEAD_START_S = 0.2
_GRACE_S = 20.0
_TOUCH_LIMIT_S = 60.0


def run_once(cluster: KafkaCluster, cell: Cell, kind: str, number: int) -> Run:
    """Do one run of the round with this number.

    Raises:
        BenchError: the producer could not be run.
        KitError: the cluster did not do what it was asked.
    """
    run = uuid.uuid4().hex[:8]
    topic = f"kip480-{run}"
    cluster.create_topic(topic, assignment=assignment(cell.partitions))
    _touch(cluster, topic, cell.partitions)
    with tempfile.TemporaryDirectory(prefix="bench-kip480-") as scratch:
        specs = [
            Spec(
                kind=kind,
                bootstrap=cluster.bootstrap_servers,
                topic=topic,
                run=run,
                index=index,
                partitions=cell.partitions,
                linger_ms=cell.linger_ms,
                batch_bytes=cell.batch_bytes,
                records=cell.records,
                keyed=cell.load.keyed,
                out=Path(scratch) / f"{index}.tape",
            )
            for index in range(cell.load.instances)
        ]
        try:
            return _load(cluster, cell, specs, number)
        finally:
            cluster.delete_topic(topic)


def _touch(cluster: KafkaCluster, topic: str, partitions: int) -> None:
    """Write one record to each partition, and wait until all are there.

    A broker opens and syncs files when a partition gets its first record. Only a new topic pays for that, and
    whoever goes to all partitions at once would pay before the load begins, whoever takes turns during it.
    """
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 2})
    for partition in range(partitions):
        producer.produce(topic, b"first", partition=partition)
    if left := producer.flush(_TOUCH_LIMIT_S):
        raise BenchError(f"{left} of {partitions} partitions took no record in {_TOUCH_LIMIT_S:.0f} s")


def _load(cluster: KafkaCluster, cell: Cell, specs: list[Spec], number: int) -> Run:
    brokers = [cluster.pids[broker] for broker in cluster.brokers]
    with ExitStack() as opened:
        loads = [opened.enter_context(loading(spec.command(), spec.out)) for spec in specs]
        for load in loads:
            load.await_ready()
        begin = time.monotonic_ns() + round((WARM_UP_S + _HEAD_START_S) * _NS)
        for load in loads:
            load.begin(begin)
        sleep_until(begin)
        stolen_before, used_before = stolen(), cpu_seconds_of(brokers)
        for load in loads:
            load.await_end(cell.seconds + DRAIN_S + _GRACE_S)
        used, elapsed = cpu_seconds_of(brokers) - used_before, (time.monotonic_ns() - begin) / _NS
        steal = (stolen() - stolen_before) / (elapsed * (os.cpu_count() or 1))
    tapes = [Tape.read(spec.out) for spec in specs]
    return run_of(number, tapes, begin, broker_cpu_s=used, steal=steal)
