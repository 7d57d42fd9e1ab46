"""A worker with much to deliver rests now and then, so that a producer's thread gets its turn."""

import pytest

from kafka_partition_events.metadata import registration
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.events import Event, MetadataStale
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.registration import REST_S, SLICE_S, Batch, Registration
from kafka_partition_events.testing.clock import ManualClock

WAIT_S = 10.0


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
        events = tuple(MetadataStale(sequence=number + n, age_s=0, limit_s=0) for n in range(count))
        number += count
        mailbox.put(Batch(EMPTY, events))
        assert mailbox.wait_synced(WAIT_S)
    mailbox.close(wait=WAIT_S)
    assert listener.heard == list(range(number)), "all of it, in order"


def test_after_each_slice_of_a_long_batch(watch: Watch) -> None:
    delivered(Working(watch, SLICE_S / 10), 35)
    assert len(watch.rests) == 3
    assert watch.rests[1] - watch.rests[0] == pytest.approx(SLICE_S + REST_S, rel=0.2)


def test_not_at_all_if_there_is_little_to_do(watch: Watch) -> None:
    delivered(Working(watch, SLICE_S / 10), 5, 5, 5, 5)
    assert watch.rests == []


@pytest.mark.parametrize("fails", [False, True])
def test_after_each_event_that_takes_longer_also_if_the_listener_fails(watch: Watch, fails: bool) -> None:
    delivered(Working(watch, SLICE_S * 3, fails=fails), 4)
    assert len(watch.rests) == 4
