"""When what is sent over a disturbed link arrives. No sockets, no clock."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.testing.network.proxy import Pump
from kafka_partition_events.testing.network.shaping import NEVER, LinkDirection, caller_of, client_id

FETCH = b"\x00\x00\x00\x40\x00\x01\x00\x0c\x00\x00\x00\x07"


@pytest.fixture
def way() -> LinkDirection:
    return LinkDirection(random.Random(1))


class Socket:
    """A side of a connection, and a loop whose time stands still: what arrives, and who may send."""

    def __init__(self) -> None:
        self.transport, self.full, self.gone = self, False, False
        self.now, self.due = 0.0, NEVER
        self.paused, self.got, self.ended = False, b"", False

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, _do: Any) -> Any:
        self.due = when
        return SimpleNamespace(cancel=lambda: None)

    def write(self, data: bytes) -> None:
        self.got += data

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def pumping(way: LinkDirection, *effect: Any) -> tuple[Any, Socket]:
    """Send over a way with so much bandwidth, delay and jitter."""
    way.change(*effect)
    world: Any = Socket()
    return Pump(way, world, world, world), world


def test_jitter_adds_a_part_of_itself(way: LinkDirection) -> None:
    way.change(None, 0.1, 0.4)
    delays = [way.arrival(*way.send(0.0, 1)) for _ in range(200)]
    assert 0.1 <= min(delays) < 0.12
    assert 0.48 < max(delays) <= 0.5


@given(st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=5000)), min_size=1), st.integers())
def test_what_was_sent_first_arrives_first(sent: list[tuple[float, bytes]], seed: int) -> None:
    way = LinkDirection(random.Random(seed))
    pump, world = pumping(way, 50_000.0, 0.05, 0.4)
    for pause, data in sent:
        world.now += pause
        pump.take(data)
    while pump._waiting:
        world.now = max(world.now, world.due)
        pump.steer()
    assert world.got == b"".join(data for _, data in sent)
    assert pump._held == 0


def test_a_delayed_way_holds_megabytes_and_an_undisturbed_one_little(way: LinkDirection) -> None:
    pump, world = pumping(way, None, 1.0, 0.0)
    pump.take(bytes(4_000_000))
    assert not world.paused
    pump.take(bytes(200_000))
    assert world.paused
    way.change(None, 0.0, 0.0)
    pump.obey()
    assert (len(world.got), world.paused) == (4_200_000, False)


def test_only_what_has_arrived_is_sent_and_what_is_not_taken_waits(way: LinkDirection) -> None:
    pump, world = pumping(way, None, 1.0, 0.0)
    pump.take(b"first")
    world.now = 0.5
    pump.take(b"second")
    world.now, world.full = 1.0, True
    pump.steer()
    assert (world.got, world.paused) == (b"", True)
    world.full = False
    pump.steer()
    assert (world.got, world.paused, world.due) == (b"first", False, 1.5)


def test_healed_is_at_once_and_less_delay_for_what_is_under_way_too(way: LinkDirection) -> None:
    pump, world = pumping(way, None, 10.0, 0.0)
    pump.take(b"x")
    way.change(None, 2.0, 0.0)
    world.now = 1.0
    pump.obey()
    assert world.due == 2.0
    way.change(None, 0.0, 0.0)
    pump.obey()
    assert (world.got, pump.torn) == (b"x", False)


def test_another_effect_leaves_what_waits_for_the_bandwidth_where_it_is(way: LinkDirection) -> None:
    pump, world = pumping(way, 10_000.0, 0.0, 0.0)
    pump.take(bytes(100_000))  # ten seconds' worth
    for delay in (0.5, 0.001):
        way.change(10_000.0, delay, 0.0)
        pump.obey()
    world.now = 1.0
    pump.steer()
    assert (len(world.got), world.paused) == (9_900, True)
    world.now = 10.001
    pump.steer()
    assert len(world.got) == 100_000
    pump.take(bytes(100_000))
    way.change(20_000.0, 0.0, 0.0)
    pump.obey()
    assert len(world.got) == 200_000, "who waits for the bandwidth there was does not wait any longer"


@pytest.mark.parametrize(
    ("request_bytes", "name"),
    [
        (b"", None),
        (FETCH, None),
        (FETCH + b"\x00\x12broker-2", None),
        (FETCH + b"\x00\x12broker-2-fetcher-0and more", "broker-2-fetcher-0"),
        (FETCH + b"\xff\xff", ""),  # null
        (FETCH + b"\x7f\xff", ""),  # longer than any we look for
    ],
)
def test_a_client_id_is_read_from_the_first_request(request_bytes: bytes, name: str | None) -> None:
    assert client_id(request_bytes) == name


def test_brokers_are_known_by_their_client_ids() -> None:
    names = ("broker-2-fetcher-0", "broker-12-txn-marker-sender", "rdkafka", "", "broker", "brokers-2-x")
    assert [caller_of(name) for name in names] == ["2", "12", "", "", "", ""]
