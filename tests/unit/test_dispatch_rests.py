"""A worker with much to deliver rests now and then, so that a producer's thread gets its turn."""

import pytest

from kafka_partition_events.metadata import registration
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.registration import REST_S, SLICE_S, Registration
from kafka_partition_events.testing.clock import ManualClock
from tests.unit.dispatch.mail import WAIT_S, news


class Watch:
    """In place of the computer's: it goes on while a listener works, and while a worker rests."""

    def __init__(self) -> None:
        self.time = 0.0
        self.rests: list[float] = []

    def perf_counter(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.rests.append(self.time)
        assert seconds == REST_S
        self.time += seconds


class Working(PartitionChangeListener):
    """Takes its time for each event, and fails at some of them."""

    def __init__(self, watch: Watch, takes: float, fails: bool = False) -> None:
        self.watch, self.takes, self.fails = watch, takes, fails
        self.heard: list[int] = []

    def on_event(self, event: Event) -> None:
        self.heard.append(event.sequence)
        self.watch.time += self.takes
        if self.fails:
            raise ZeroDivisionError


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(registration, "perf_counter", watch.perf_counter)
    monkeypatch.setattr(registration, "sleep", watch.sleep)
    return watch


def delivered(listener: Working, *counts: int) -> None:
    mailbox = Registration(listener, capacity=10_000, clock=ManualClock())
    number = 0
    for count in counts:
        mailbox.put(news(*range(number, number := number + count)))
        assert mailbox.wait_synced(WAIT_S)
    mailbox.close(wait=WAIT_S)
    assert listener.heard == list(range(number)), "all of it, in order"


@pytest.mark.parametrize(
    ("takes", "counts", "fails", "rests"),
    [
        (SLICE_S / 10, (35,), False, 3),
        (SLICE_S / 10, (5, 5, 5, 5), False, 0),
        (SLICE_S * 3, (4,), False, 4),
        (SLICE_S, (4,), True, 4),
    ],
    ids=["after each slice of a long batch", "little to do", "after each that takes longer", "it fails"],
)
def test_a_worker_rests(watch: Watch, takes: float, counts: tuple[int, ...], fails: bool, rests: int) -> None:
    delivered(Working(watch, takes, fails), *counts)
    assert len(watch.rests) == rests
    if len(counts) == 1 and takes < SLICE_S:
        assert watch.rests[1] - watch.rests[0] == pytest.approx(SLICE_S + REST_S, rel=0.2)
