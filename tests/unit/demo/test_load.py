"""One producer's process: what it sends when, and what the parent sees of it."""

import time
from pathlib import Path

import pytest
from attrs import define, field

from kafka_partition_events.demo.load import Schedule, send_paced, value_of
from kafka_partition_events.demo.senders import Notes
from kafka_partition_events.demo.tape import FAILED, UNANSWERED, Tape


@define
class Sender:
    """Takes records, and ends the load after some."""

    orders: "Orders"
    keys_from: int = 1_000_000
    last: int = 9
    slower_from: int = 1_000_000
    sent: list[tuple[int, bytes | None]] = field(factory=list)
    waits: int = 0

    def send(self, number: int, value: bytes, key: bytes | None) -> None:
        assert value == value_of(number)
        self.sent.append((number, key))
        self.orders.keyed = number + 1 >= self.keys_from
        self.orders.ended = number == self.last
        if number + 1 == self.slower_from:
            self.orders.schedule = Schedule(time.monotonic_ns() + 10_000_000, 100)

    def wait(self, seconds: float) -> None:
        """Let no time pass: the loop asks the clock again."""
        self.waits += 1

    def finish(self, seconds: float) -> None: ...
    def close(self) -> None: ...


@define
class Orders:
    schedule: Schedule
    keyed: bool = False
    ended: bool = False


@pytest.fixture
def tape_file(tmp_path: Path) -> Path:
    file = tmp_path / "x.tape"
    Tape.create(file, 100)
    return file


def test_another_reader_sees_a_record_at_once(tape_file: Path) -> None:
    with Tape(tape_file) as ours, Tape(tape_file) as theirs:
        assert len(theirs) == 100
        assert list(theirs.rows()) == []
        ours.send(0)
        (row,) = theirs.rows()
        assert (row.done_ns, row.outcome) == (0, UNANSWERED)
        ours.report(0, delivered=False)
        (row,) = theirs.rows()
        assert row.sent_ns <= row.done_ns
        assert row.outcome == FAILED


def test_records_are_sent_by_an_open_schedule_until_the_end(tape_file: Path) -> None:
    orders = Orders(Schedule(time.monotonic_ns(), 10_000))
    with Tape(tape_file) as tape:
        sender = Sender(orders)
        assert send_paced(sender, Notes(tape), orders) == 10  # type: ignore[arg-type]
        rows = list(tape.rows())
    assert [number for number, _ in sender.sent] == list(range(10))
    for number, row in enumerate(rows):
        assert row.sent_ns >= orders.schedule.begin_ns + number * 100_000, "before it was due"


def test_who_is_behind_schedule_hears_of_deliveries_all_the_same(tape_file: Path) -> None:
    orders = Orders(Schedule(time.monotonic_ns() - 60_000_000_000, 100))
    with Tape(tape_file) as tape:
        sender = Sender(orders)
        send_paced(sender, Notes(tape), orders)  # type: ignore[arg-type]
    assert sender.waits >= len(sender.sent) == 10


def test_a_new_schedule_holds_from_the_next_record_on(tape_file: Path) -> None:
    orders = Orders(Schedule(time.monotonic_ns(), 1_000_000))
    with Tape(tape_file) as tape:
        sender = Sender(orders, slower_from=5)
        began = time.monotonic_ns()
        assert send_paced(sender, Notes(tape), orders) == 10  # type: ignore[arg-type]
        rows = list(tape.rows())
    assert rows[4].sent_ns < began + 20_000_000
    for number, row in enumerate(rows[5:]):
        assert row.sent_ns >= orders.schedule.begin_ns + number * 10_000_000
