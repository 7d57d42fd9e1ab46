"""The faults. Each begins when it is called, lasts until a given time at most, and says when it began."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import frozen

from benchmarks.faults.plan import (
    BROKERS_THROTTLED,
    DISK_MS,
    FROZEN_S,
    FROZEN_WHOLE_S,
    SLOW_MS,
    THAWED_S,
    THROTTLED,
)
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.cluster.broker_probe import BrokerView, ProbeError, ask_broker
from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.network.links import Link

_NS = 1_000_000_000
_IN_SYNC_LIMIT_S = 60.0
_POLL_S = 0.05


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


Inject = Callable[[Order], Injected]


def sleep_until(moment_ns: int) -> None:
    time.sleep(max(0, moment_ns - time.monotonic_ns()) / _NS)


def _lasting(begin: Callable[[Order], object], end: Callable[[Order], object] | None = None) -> Inject:
    """Return a fault that lasts as long as the load."""

    def inject(order: Order) -> Injected:
        at = time.monotonic_ns()
        try:
            begin(order)
            sleep_until(order.until_ns)
        finally:
            if end is not None:
                end(order)
        return Injected(at)

    return inject


def freeze(order: Order) -> Injected:
    """Let a broker stand still and then go on."""
    at = time.monotonic_ns()
    try:
        order.cluster.freeze(order.broker)
        sleep_until(min(order.until_ns, at + round(FROZEN_WHOLE_S * _NS)))
    finally:
        order.cluster.thaw(order.broker)
    sleep_until(order.until_ns)
    return Injected(at)


def freeze_in_turns(order: Order) -> Injected:
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
    with busy(os.cpu_count() or 1, order.until_ns):
        sleep_until(order.until_ns)
    return Injected(at)


@contextmanager
def busy(cores: int, until_ns: int) -> Iterator[None]:
    """Keep so many processors busy, until then at the latest."""
    command = [sys.executable, "-I", "-S", "-c", _BUSY, str(until_ns)]
    processes = [subprocess.Popen(command) for _ in range(cores)]  # noqa: S603 - ours
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


_BUSY = "import sys, time\nwhile time.monotonic_ns() < int(sys.argv[1]): pass"  # ends by itself in any case


# -- links between clients and a broker, or between brokers ----------------------------------------------


def _to_clients(disturb: Callable[[Link], None]) -> Inject:
    """Return the fault of one broker's connections to clients."""
    return _lasting(
        lambda order: disturb(order.cluster.link(order.broker)), lambda order: order.cluster.heal()
    )


def _to_brokers(disturb: Callable[[Link], None]) -> Inject:
    """Return the fault of one broker's connections to all other brokers."""

    def begin(order: Order) -> None:
        for other in set(order.cluster.brokers) - {order.broker}:
            disturb(order.cluster.link(order.broker, other))

    return _lasting(begin, lambda order: order.cluster.heal())


INJECT: dict[str, Inject] = {
    "in-turns": freeze_in_turns,
    "frozen": freeze,
    "killed": _lasting(lambda order: order.cluster.kill(order.broker)),
    "link-slowed": _to_clients(lambda link: link.delay(SLOW_MS)),
    "link-swallowed": _to_clients(lambda link: link.blackhole()),
    "link-throttled": _to_clients(lambda link: link.bandwidth(THROTTLED)),
    "brokers-swallowed": _to_brokers(lambda link: link.blackhole()),
    "brokers-throttled": _to_brokers(lambda link: link.bandwidth(BROKERS_THROTTLED)),
    "slow-disk": _lasting(
        lambda order: order.cluster.slow_disk(order.broker, DISK_MS),
        lambda order: order.cluster.slow_disk(order.broker, 0),
    ),
    "busy": press,
    "rolling": roll,
    "calm": _lasting(id),
}


# -- repair ----------------------------------------------------------------------------------------------


def repair(cluster: KafkaCluster) -> None:
    """Bring every broker back and wait until every replica is in sync.

    Raises:
        KitError: some is not in time.
    """
    for broker in cluster.brokers:
        cluster.thaw(broker)
    dead = {*cluster.controllers, *cluster.brokers} - cluster.pids.keys()
    for node in sorted(dead, reverse=True):  # controllers first: without one no broker can register
        cluster.restart(node)
    cluster.await_registered(*cluster.brokers)
    deadline = time.monotonic() + _IN_SYNC_LIMIT_S
    while not all(_in_sync(address) for address in cluster.bootstrap_servers.split(",")):
        if time.monotonic() > deadline:
            raise KitError(f"not all replicas were in sync again within {_IN_SYNC_LIMIT_S:.0f} s")
        time.sleep(_POLL_S)


def _in_sync(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        view = ask_broker(host, int(port))
    except ProbeError:
        return False
    return _all_in_sync(view)


def _all_in_sync(view: BrokerView) -> bool:
    return all(
        set(partition.isr) == set(partition.replicas)
        for partitions in view.topics.values()
        for partition in partitions.values()
    )
