"""Producers that write numbered records at a steady rate, whatever happens to the cluster."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kafka_partition_events.cli.common.errors import one_line
from kafka_partition_events.demo.ledger import Mark, Payload, TopicLedger
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

TICK_S = 0.02
"""Records go out in small bursts: a thread that wakes for every record costs more than the records."""

_KEYS = 97
_LATEST_S = 1.0  # how far behind its schedule a producer may fall before the schedule gives way

Report = Callable[[str | None], None]
"""Told once for each record: None when it was acknowledged, else the cause of its failure."""


class Writer(Protocol):
    """One producer, of either client."""

    name: str

    @property
    def partitioner(self) -> Partitioner:
        """Who chooses the partitions."""

    @property
    def poller(self) -> MetadataPoller:
        """Who tells what the partitioner finds out."""

    def write(self, topic: str, value: bytes, key: bytes | None, report: Report) -> None:
        """Send one record. An exception is its failure."""

    def serve(self) -> None:
        """Let delivery reports in, without waiting."""

    def finish(self, timeout: float) -> None:
        """Wait until every record has been reported on."""

    def own_counters(self) -> str:
        """Return what the producer itself counted, in words; nothing if it does not count."""

    def close(self) -> None:
        """Release the producer."""


class Traffic:
    """A thread that writes to some topics with one producer; every other record of a topic has a key."""

    def __init__(
        self, writer: Writer, turns: Sequence[str], ledgers: Mapping[str, TopicLedger], rate: float
    ) -> None:
        """Make it; `start` begins.

        Args:
            writer: The producer.
            turns: Which topic each record goes to, again and again.
            ledgers: Where the records of each topic are entered.
            rate: Records per second.
        """
        self.writer = writer
        self.ledgers = ledgers
        self.error: BaseException | None = None
        """What ended the thread early; None while all is well."""
        self._turns = turns
        self._rate = rate
        self._sent = Counter[str]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kpe-demo-{writer.name}", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def _run(self) -> None:
        try:
            began, sent = time.monotonic(), 0
            while not self._stop.wait(TICK_S):
                elapsed = time.monotonic() - began
                due = int(elapsed * self._rate)
                if due - sent > self._rate * _LATEST_S:  # the machine or the producer paused: don't catch up
                    began += (due - sent) / self._rate
                    due = sent + 1
                for _ in range(due - sent):
                    self._send_one(self._turns[sent % len(self._turns)])
                    sent += 1
                self.writer.serve()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which must not wait in vain
            self.error = error

    def _send_one(self, topic: str) -> None:
        ledger = self.ledgers[topic]
        earlier = self._sent[topic]
        self._sent[topic] += 1
        keyed = earlier % 2 == 0
        key = b"key-%d" % (earlier // 2 % _KEYS) if keyed else None
        mark = Mark.of(self.writer.partitioner.route(topic), keyed=keyed)
        number = ledger.send(mark)

        def report(cause: str | None) -> None:
            if cause is None:
                ledger.acknowledged(number)
            else:
                ledger.failed(number, cause)

        try:
            self.writer.write(topic, Payload(self.writer.name, number, mark).encode(), key, report)
        except Exception as error:  # noqa: BLE001 - a record that is refused at once has failed, no more
            report(one_line(error))
