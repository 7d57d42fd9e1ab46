"""The faults. Each begins when it is called, lasts until a given time at most, and says when it began."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

from attrs import frozen

from benchmarks.faults.plan import FROZEN_S, THAWED_S, FaultKind
from kafka_partition_events.testing import KafkaCluster

_NS = 1_000_000_000


@frozen
class Order:
    """Where to disturb, whom (if the fault is one broker's), and until when (ns, monotonic)."""

    cluster: KafkaCluster
    broker: int
    until_ns: int


@frozen
class Injected:
    """When a fault began (ns, monotonic), and whether it ran its course before the load ended."""

    at_ns: int
    complete: bool = True


def sleep_until(moment_ns: int) -> None:
    time.sleep(max(0, moment_ns - time.monotonic_ns()) / _NS)


def brown_out(order: Order) -> Injected:
    """Freeze a broker most of the time; what runs between keeps it in the cluster."""
    at = step = time.monotonic_ns()
    try:
        while step < order.until_ns:
            order.cluster.freeze(order.broker)
            sleep_until(min(order.until_ns, step + round(FROZEN_S * _NS)))
            order.cluster.thaw(order.broker)
            step += round((FROZEN_S + THAWED_S) * _NS)
            sleep_until(min(order.until_ns, step))
    finally:
        order.cluster.thaw(order.broker)
    return Injected(at)


def kill(order: Order) -> Injected:
    at = time.monotonic_ns()
    order.cluster.kill(order.broker)
    sleep_until(order.until_ns)
    return Injected(at)


def roll(order: Order) -> Injected:
    """Restart every broker in good order, one after the other, as an upgrade does."""
    at = time.monotonic_ns()
    for broker in order.cluster.brokers:
        order.cluster.stop(broker)
        order.cluster.restart(broker)
    complete = time.monotonic_ns() < order.until_ns
    sleep_until(order.until_ns)
    return Injected(at, complete)


def press(order: Order) -> Injected:
    """Keep every processor busy with something else."""
    at = time.monotonic_ns()
    busy = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", _BUSY, str(order.until_ns)])  # noqa: S603 - ours
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        sleep_until(order.until_ns)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    return Injected(at)


_BUSY = "import sys, time\nwhile time.monotonic_ns() < int(sys.argv[1]): pass"  # ends by itself in any case

FAULTS: dict[FaultKind, Callable[[Order], Injected]] = {
    "brownout": brown_out,
    "kill": kill,
    "rolling": roll,
    "pressure": press,
}


def repair(cluster: KafkaCluster) -> None:
    """Bring every broker back and wait until all are in sync."""
    for broker in cluster.brokers:
        cluster.thaw(broker)
    for broker in set(cluster.brokers) - set(cluster.running):
        cluster.restart(broker)
    cluster.await_registered(*cluster.brokers)
