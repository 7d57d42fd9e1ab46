"""What Kafka's own metadata says meanwhile, as a healthy broker tells it to anybody who asks."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import frozen

from kafka_partition_events.testing.broker_probe import BrokerView, ProbeError, ask_broker

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

    def in_words(self, brokers: int) -> str:
        """Return it as a sentence."""
        return f"{len(self.brokers)} of {brokers} brokers, {self.offline} partitions offline"


class Witness:
    """Asks one broker again and again.

    Attributes:
        says: The last answer.
    """

    def __init__(self, address: str, changed: Callable[[int, Said, Said], None]) -> None:
        """Ask for the first time.

        Args:
            address: ``host:port`` of a broker that nothing is done to.
            changed: Called with the moment (ns, monotonic), what it said before, and what it says now.
        """
        host, _, port = address.rpartition(":")
        self._where = host, int(port)
        self._changed = changed
        self._stop = threading.Event()
        self.says = Said.of(ask_broker(*self._where, timeout=_LIMIT_S))

    def run(self) -> None:
        """Ask until `stop`."""
        while not self._stop.wait(_INTERVAL_S):
            try:
                said = Said.of(ask_broker(*self._where, timeout=_LIMIT_S))
            except ProbeError:
                continue  # a busy machine; the next question comes soon
            before, self.says = self.says, said
            if said != before:
                self._changed(time.monotonic_ns(), before, said)

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()


@contextmanager
def open_witness(address: str, changed: Callable[[int, Said, Said], None]) -> Iterator[Witness]:
    """Let a witness ask in a thread of its own."""
    witness = Witness(address, changed)
    thread = threading.Thread(target=witness.run, name="kpe-demo-witness", daemon=True)
    thread.start()
    try:
        yield witness
    finally:
        witness.stop()
        thread.join(2 * _LIMIT_S)
