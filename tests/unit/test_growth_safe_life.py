"""Stores that are down or lost, and partitioners that are dropped, closed or forked."""

import gc
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing

import pytest
import structlog

from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.pins import History, MemoryPinStore
from kafka_partition_events.testing.clock import ManualClock
from tests.growth_kit import LIMIT_S, Fleet, modulo, places, see


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with closing(Fleet()) as fleet:
        yield fleet


class TestAStoreThatIsDown:
    def test_at_the_start_is_an_error(self, fleet: Fleet) -> None:
        fleet.store.down = True
        with pytest.raises(PinStoreError, match="the store is down"):
            fleet.start()

    def test_later_moves_no_key_and_is_told_once(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        fleet.after(1)
        see(instance, 12)
        assert instance.last_error is None
        for _ in range(2):
            with structlog.testing.capture_logs() as logs:
                fleet.store.down = True
                for _ in range(5):
                    fleet.after(1)
                assert instance.last_error == "the store is down"
                assert places(instance) == modulo(6)
            assert logs == [
                {"event": "pin_store_failed", "log_level": "warning", "error": "the store is down"}
            ]
            fleet.store.down = False
            fleet.after(1)
            assert instance.last_error is None

    def test_holds_up_no_cut_over_that_is_known(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        instance.cut_over("t", delay=10)
        fleet.store.down = True
        fleet.after(10)
        assert places(instance) == modulo(12)

    def test_gets_a_pin_when_it_is_back(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        fleet.store.down = True
        places(instance)
        fleet.after(1)
        fleet.store.down = False
        fleet.after(1)
        assert fleet.store.read() == instance.pins

    def test_is_an_error_for_whom_cuts_over(self, fleet: Fleet) -> None:
        instance = fleet.start(6)
        places(instance)
        see(instance, 12)
        fleet.store.down = True
        with pytest.raises(PinStoreError, match="the store is down"):
            instance.cut_over("t")

    def test_by_an_error_of_its_own_is_no_different(
        self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        instance = fleet.start(6)
        places(instance)

        def read() -> Mapping[str, History]:
            raise KeyError("foreign")

        monkeypatch.setattr(fleet.store, "read", read)
        fleet.after(1)
        assert instance.last_error == "'foreign'"
        assert places(instance) == modulo(6)


def test_a_store_that_was_lost_is_written_again(fleet: Fleet) -> None:
    instance = fleet.start(6)
    places(instance)
    see(instance, 12)
    instance.cut_over("t", delay=10)
    fleet.after(10)
    known = instance.pins["t"]
    lost: list[dict[str, History]] = [{}, {"t": known[:1]}]
    for left in lost:
        fleet.store._histories = left
        fleet.after(1)
        assert fleet.store.read() == {"t": known}
        assert places(instance) == modulo(12)


# -- life ----------------------------------------------------------------------------------------------------


def watchers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "kpe-pins"}


def test_a_partitioner_that_is_dropped_ends_its_thread() -> None:
    before = watchers()
    partitioner = GrowthSafePartitioner(mapping="pinned", store=MemoryPinStore(), clock=ManualClock())
    [thread] = watchers() - before
    see(partitioner, 6)
    places(partitioner)
    del partitioner
    gc.collect()
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_a_partitioner_that_was_closed_begins_again_when_it_is_used(fleet: Fleet) -> None:
    before = watchers()
    instance = fleet.start(6)
    [thread] = watchers() - before
    places(instance)
    fleet.after(1)
    for _ in range(2):
        instance.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    other = fleet.start(12)
    other.cut_over("t", delay=10, count=12)
    see(instance, 12)
    assert places(instance) == modulo(6)
    fleet.after(10)
    assert places(instance) == modulo(12)


def test_closing_while_a_look_at_the_store_hangs(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = fleet.start(6)
    places(instance)
    fleet.clock.wait_for_waiters(1)
    hanging, goes_on = threading.Event(), threading.Event()

    def hang() -> Mapping[str, History]:
        hanging.set()
        goes_on.wait(LIMIT_S)
        return {}

    [thread] = watchers()
    monkeypatch.setattr(fleet.store, "read", hang)
    fleet.clock.advance(1)
    assert hanging.wait(LIMIT_S)
    instance.close()
    goes_on.set()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert instance._topics is not None
    assert instance._topics.in_force == {}, "or nobody would begin again"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_the_store_by_itself(fleet: Fleet) -> None:
    instance = fleet.start(6)
    places(instance)
    fleet.clock.wait_for_waiters(1)
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT_S)  # a deadlock ends here, with a signal
        good = places(instance) == modulo(6) and len(watchers()) == 1
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
