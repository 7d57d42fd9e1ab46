"""A further handle: made on its own thread, never in the way of a record, and given up when it is idle."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from attrs import evolve

from kafka_partition_events import Node
from kafka_partition_events.clients.flight.detour import CHECK_S, GRACE_S, IDLE_S, RETRY_S, Detour, healthy
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of


class Numbered(int):
    """A handle, and how many records it has."""

    outstanding = 0

    def __len__(self) -> int:
        return self.outstanding


class Rig:
    """A detour whose handles are numbers, made as soon as `may` is set."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.may = threading.Event()
        self.error: Exception | None = None
        self.tried = 0
        self.closed = threading.Semaphore(0)
        self.owner: object = self
        self.detour = Detour(self.make, lambda _handle: self.closed.release(), lambda: self.owner, self.clock)

    def make(self) -> Numbered:
        self.tried += 1
        assert self.may.wait(10)
        if self.error is not None:
            raise self.error
        return Numbered(self.tried)

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds / CHECK_S)):
            self.clock.advance(CHECK_S)
            self.clock.wait_for_waiters()

    def opened(self) -> Numbered | None:
        """Ask for the handle, let it be made, and return it."""
        self.detour.handle()
        self.may.set()
        self.clock.wait_for_waiters()  # until it is idle
        return self.detour.open


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.may.set()
    rig.detour.end()
    if (thread := rig.detour._thread) is not None:
        thread.join(10)


def test_nothing_waits_for_a_handle_that_is_being_made(rig: Rig) -> None:
    assert rig.detour.handle() is None
    assert rig.detour.handle() is None
    assert rig.detour.is_coming
    assert rig.opened() == 1
    assert rig.detour.handle() == 1
    assert not rig.detour.is_coming


def test_a_handle_that_cannot_be_made_is_reported_once_and_tried_again_later(rig: Rig) -> None:
    rig.error = ValueError("ssl.ca.location failed")
    with structlog.testing.capture_logs() as logs:
        assert rig.opened() is None
        assert rig.detour.handle() is None
    assert [log["error"] for log in logs] == ["ssl.ca.location failed"]
    assert rig.tried == 1
    rig.error = None
    thread = rig.detour._thread
    assert thread is not None
    rig.clock.advance(RETRY_S)
    thread.join(10)
    assert rig.opened() == 2


def test_an_idle_handle_is_taken_away_and_closed_a_moment_later(rig: Rig) -> None:
    rig.opened()
    rig.pass_time(IDLE_S)
    assert rig.detour.open is None
    assert not rig.closed.acquire(blocking=False), "it may just have been taken"
    rig.clock.advance(GRACE_S)
    assert rig.closed.acquire(timeout=10)


def test_one_that_is_used_or_has_records_is_not_idle(rig: Rig) -> None:
    handle = rig.opened()
    assert handle is not None
    rig.pass_time(IDLE_S - CHECK_S)
    rig.detour.handle()
    rig.pass_time(2 * CHECK_S)
    assert rig.detour.open == 1
    handle.outstanding = 1
    rig.pass_time(2 * IDLE_S)
    assert rig.detour.open == 1


def test_one_of_a_producer_that_was_dropped_is_closed_soon(rig: Rig) -> None:
    handle = rig.opened()
    assert handle is not None
    handle.outstanding = 1
    rig.owner = None
    rig.pass_time(CHECK_S)
    rig.clock.advance(GRACE_S)
    assert rig.closed.acquire(timeout=10)


def test_another_one_is_made_after_one_whose_end_has_raised(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def close(handle: Numbered) -> None:
        raise ValueError(f"error_cb of handle {handle}")

    rig.detour._close = close
    rig.opened()
    thread = rig.detour._thread
    assert thread is not None
    rig.pass_time(IDLE_S)
    rig.clock.advance(GRACE_S)
    thread.join(10)
    assert [str(it.exc_value) for it in raised] == ["error_cb of handle 1"]
    rig.detour._close = lambda _handle: None
    assert rig.opened() == 2


def test_closing_closes_it_for_good(rig: Rig) -> None:
    rig.opened()
    rig.detour.close()
    assert rig.closed.acquire(blocking=False)
    assert rig.detour.handle() is None
    assert rig.tried == 1
    rig.detour.close()


def test_one_that_comes_after_the_end_is_closed_by_its_thread(rig: Rig) -> None:
    rig.detour.handle()
    thread = rig.detour._thread
    rig.detour.close()  # it does not wait: nothing was sent there
    rig.may.set()
    assert thread is not None
    thread.join(10)
    assert rig.closed.acquire(blocking=False)
    assert rig.detour.open is None


def test_addresses_are_of_brokers_that_are_not_suspect_and_ipv6_is_in_brackets() -> None:
    cluster = cluster_of({"t": [1]}, brokers=[1])
    nodes = {1: Node(1, "::1", 9092), 2: Node(2, "kafka-2", 9093), 3: Node(3, "kafka-3", 9094)}
    assert healthy(evolve(cluster, nodes=nodes), {3}) == ["[::1]:9092", "kafka-2:9093"]
    assert healthy(None, ()) == []


def test_a_callback_of_the_handle_s_own_close_may_close_it() -> None:
    class Handle:
        def __len__(self) -> int:
            return 0

    def close(_handle: Handle) -> None:
        try:
            detour.close()
        except RuntimeError as error:
            raised.append(error)

    raised: list[RuntimeError] = []
    detour = Detour(Handle, close, lambda: 1)
    detour.handle()
    while detour.open is None:
        threading.Event().wait(0.001)
    detour.close()
    assert not raised
