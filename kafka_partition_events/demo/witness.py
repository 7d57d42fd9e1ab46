"""What Kafka's own metadata says meanwhile, as a healthy broker answers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import frozen

from kafka_partition_events.testing.cluster.broker_probe import BrokerView, ProbeError, ask_broker

_INTERVAL_S = 0.2
_LIMIT_S = 2.0


@frozen
class Said:
    """What metadata says: the brokers listed, and how many partitions have no leader among them."""

    brokers: frozenset[int]
    offline: int

    @classmethod
    def of(cls, view: BrokerView) -> "Said":
        """Count."""
        partitions = [each for topic in view.topics.values() for each in topic.values()]
        return cls(view.brokers, sum(each.leader not in view.brokers for each in partitions))


@contextmanager
def open_witness(address: str, changed: Callable[[int, Said, Said], None]) -> Iterator[None]:
    """Ask one broker again and again, in a thread of its own.

    Args:
        address: ``host:port`` of a broker that nothing is done to.
        changed: Called with the moment (ns, monotonic), what it said before, and what it says now.
    """
    host, _, port = address.rpartition(":")
    stop = threading.Event()
    first = Said.of(ask_broker(host, int(port), timeout=_LIMIT_S))

    def run() -> None:
        before = first
        while not stop.wait(_INTERVAL_S):
            try:
                said = Said.of(ask_broker(host, int(port), timeout=_LIMIT_S))
            except ProbeError:
                continue  # a busy machine; the next question comes soon
            if said != before:
                changed(time.monotonic_ns(), before, said)
            before = said

    thread = threading.Thread(target=run, name="kpe-demo-witness", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(2 * _LIMIT_S)
