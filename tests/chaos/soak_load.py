"""``python -m tests.chaos.soak_load TASK RATE``: one writer at a steady rate, until SIGTERM.

Each second it adds a line to its file: what it has counted so far. Nothing is noted of single records.
"""

import json
import sys
import threading
import time
from collections import Counter

from attrs import asdict

from tests.chaos.diary import Task, stopped_by_sigterm
from tests.chaos.load import driver_of
from tests.chaos.steady import Counts, writers
from tests.drivers_kit import QUEUE

_TICK_S = 0.02
_LINE_S = 1.0
_MOST_BEHIND_S = 1.0
_MOST_WAITING = QUEUE * 9 // 10
_VALUE = b"." * 100
_KEYED_EACH = 5
_KEYS = [b"key-%d" % number for number in range(1_000)]


class Tally:
    """A diary that counts outcomes, and adds up whose they are. Thread-safe.

    A set of numbers would grow all the time, and memory is what is measured.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sent = 0
        self._acked, self._failed = Counter[str](), Counter[str]()
        self._balance = 0

    def sent(self, number: int) -> None:
        with self._lock:
            self._sent += 1
            self._balance += number

    def acked(self, number: int, partition: int | None, offset: int | None) -> None:
        with self._lock:
            self._acked[str(partition)] += 1
            self._balance -= number

    def failed(self, number: int, error: object) -> None:
        with self._lock:
            self._failed[str(error)] += 1
            self._balance -= number

    def counts(self, skipped: int) -> Counts:
        with self._lock:
            acked, failed = dict(self._acked), dict(self._failed)
            return Counts(time.time(), self._sent, acked, failed, skipped, self._balance)


def main(text: str, rate: float) -> None:
    task, stop, tally = Task.parse(text), stopped_by_sigterm(), Tally()
    writer = writers(rate)[task.name]
    driver = driver_of(task, writer, tally)
    with task.diary.open("a", buffering=1) as file:
        next_line = began = time.monotonic()
        number = skipped = 0  # record n is due n / rate seconds after the first one
        while not stop.is_set():
            due = int((time.monotonic() - began) * writer.rate)
            if due - number > _MOST_BEHIND_S * writer.rate:  # it goes on with what is due next
                skipped, number = skipped + due - number, due
            counts = tally.counts(skipped)
            room = _MOST_WAITING - (counts.sent - counts.answered)
            ends = max(number, min(due, number + room))  # nothing is sent while the queue is full
            for each in range(number, ends):
                turn, unkeyed = divmod(each, _KEYED_EACH)
                tally.sent(each)
                driver.send(each, task.name, None if unkeyed else _KEYS[turn % len(_KEYS)], _VALUE)
            number = ends
            driver.wait(_TICK_S)
            if time.monotonic() >= next_line:
                next_line += _LINE_S
                file.write(json.dumps(asdict(counts)) + "\n")
        driver.flush(writer.finish_s)
        driver.close()
        file.write(json.dumps(asdict(tally.counts(skipped))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
