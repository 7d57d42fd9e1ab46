"""``python -m kafka_partition_events.demo.load``: one producer's process.

Says that it is ready on standard output, and does there what the parent says on standard input, a line each:
``begin NS RATE`` (from that moment of the monotonic clock on, so many records a second; said again, from the
next record on), ``keys`` (with keys from now on), ``end``.
It ends when its standard input does, so it does not outlive the parent.
"""

import signal
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import structlog

from kafka_partition_events.demo.plan import ASYNCIO, CAST, DELIVERY_LIMIT_MS, VALUE_BYTES
from kafka_partition_events.demo.senders import Notes, Sender, connect
from kafka_partition_events.demo.tape import Tape

KEYS = 100
"""So few that each is sent again and again, also where the machine is slow: its order is to be proven."""

FINISH_LIMIT_S = DELIVERY_LIMIT_MS / 1000 + 2.0
_NS = 1_000_000_000
_LONGEST_WAIT_S = 0.05


class Schedule(NamedTuple):
    """When records are due.

    Attributes:
        begin_ns: The first one, by the monotonic clock.
        rate: How many in a second from then on.
    """

    begin_ns: int
    rate: int


class Orders:
    """What the parent has said so far. A thread of its own listens."""

    def __init__(self) -> None:
        """Begin to listen."""
        self.schedule = Schedule(0, 1)
        self.keyed = False
        self.ended = False
        self.begun = threading.Event()
        threading.Thread(target=self._listen, name="kpe-demo-orders", daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            match line.split():
                case ["begin", moment, rate]:
                    self.schedule = Schedule(int(moment), int(rate))
                    self.begun.set()
                case ["keys"]:
                    self.keyed = True
                case ["end"]:
                    break
        self.ended = True
        self.begun.set()


def send_paced(sender: Sender, notes: Notes, orders: Orders) -> int:
    """Send until the end, by an open schedule: record n is due n/rate s after the first, come what may.

    Reports are served before each record, late or not: else who is behind hears of no delivery at all.

    Returns:
        How many were sent.
    """
    tape, schedule, first = notes.tape, orders.schedule, 0
    for number in range(len(tape)):
        if orders.schedule is not schedule:
            schedule, first = orders.schedule, number
        due = schedule.begin_ns + (number - first) * _NS // schedule.rate
        sender.wait(0.0)
        while (early := due - time.monotonic_ns()) > 0 and not orders.ended:
            sender.wait(min(_LONGEST_WAIT_S, early / _NS))
        if orders.ended:
            return number
        key = b"key-%d" % (number % KEYS) if orders.keyed else None
        tape.send(number)
        sender.send(number, value_of(number), key)
    return len(tape)


def value_of(number: int) -> bytes:
    """Return a record's value: its number, and what fills it up."""
    return b"%-*d" % (VALUE_BYTES, number)


def main(key: str, bootstrap_servers: str, tape_file: str) -> None:
    """Run one load."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who closes our standard input
    # Standard output is for the parent; structlog writes there unless it is configured.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    part = next(part for part in (*CAST, *ASYNCIO) if part.key == key)
    with Tape(Path(tape_file)) as tape:
        notes = Notes(tape)
        sender = connect(bootstrap_servers, part, notes)
        orders = Orders()
        notes.notify(kind="ready")
        orders.begun.wait()
        sent = send_paced(sender, notes, orders)
        sender.finish(FINISH_LIMIT_S)
        notes.notify(kind="done", sent=sent, causes=notes.causes)


if __name__ == "__main__":
    main(*sys.argv[1:])
