"""When what is sent over a disturbed link arrives. No sockets, no clock."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.testing.shaping import NEVER, Lane, Way, caller_of, client_id

FETCH = b"\x00\x00\x00\x40\x00\x01\x00\x0c\x00\x00\x00\x07"


@pytest.fixture
def way() -> Way:
    return Way(random.Random(1))


def arrivals(lane: Lane) -> list[tuple[float, bytes]]:
    return list(lane.waiting)


def test_undisturbed_bytes_arrive_when_they_are_sent(way: Way) -> None:
    assert way.arrival(5.0, 10**9) == 5.0


def test_delay_is_the_same_for_all(way: Way) -> None:
    way.change(None, 0.1, 0.0)
    assert [way.arrival(now, 100) for now in (1.0, 1.01)] == pytest.approx([1.1, 1.11])


def test_jitter_adds_a_part_of_itself(way: Way) -> None:
    way.change(None, 0.1, 0.4)
    delays = [way.arrival(0.0, 1) for _ in range(200)]
    assert 0.1 <= min(delays) < 0.12
    assert 0.48 < max(delays) <= 0.5


def test_bandwidth_is_shared_and_comes_before_the_delay(way: Way) -> None:
    way.change(1000.0, 0.5, 0.0)
    assert way.arrival(0.0, 100) == pytest.approx(0.6)
    assert way.arrival(0.0, 100) == pytest.approx(0.7)  # of whichever connection
    assert way.arrival(9.0, 100) == pytest.approx(9.6)  # idle time is not saved up


def test_a_narrow_way_takes_small_pieces_and_little_ahead(way: Way) -> None:
    way.change(10_000.0, 0.0, 0.0)
    lane = Lane(way)
    assert way.piece == 100
    while lane.readable_at(0.0) <= 0.0:
        lane.add(0.0, bytes(way.piece))
    assert lane.held == 600  # 50 ms of it, and the piece that went beyond
    assert lane.readable_at(0.0) == pytest.approx(0.01)
    assert Lane(way).readable_at(0.0) == pytest.approx(0.01)


def test_a_change_of_bandwidth_leaves_no_debt(way: Way) -> None:
    way.change(10.0, 0.0, 0.0)
    way.arrival(0.0, 1000)
    way.change(10_000.0, 0.0, 0.0)
    assert way.arrival(1.0, 100) == pytest.approx(1.01)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 5000)), min_size=1, max_size=40), st.integers())
def test_what_was_sent_first_arrives_first(sent: list[tuple[float, int]], seed: int) -> None:
    way = Way(random.Random(seed))
    way.change(50_000.0, 0.05, 0.4)
    lane, now = Lane(way), 0.0
    for pause, size in sent:
        now += pause
        lane.add(now, bytes(size))
    due = [when for when, _ in arrivals(lane)]
    assert due == sorted(due)
    assert lane.held == sum(size for _, size in sent)


def test_a_delayed_way_holds_megabytes_and_an_undisturbed_one_little(way: Way) -> None:
    lane = Lane(way)
    lane.add(0.0, bytes(131_072))
    assert lane.readable_at(0.0) == NEVER
    way.change(None, 1.0, 0.0)
    assert lane.readable_at(0.0) == 0.0
    lane.add(0.0, bytes(4_194_304))
    assert lane.readable_at(0.0) == NEVER


def test_only_what_has_arrived_is_sent_and_what_is_not_taken_waits(way: Way) -> None:
    way.change(None, 1.0, 0.0)
    lane = Lane(way)
    lane.add(0.0, b"first")
    lane.add(0.5, b"second")
    taken: list[bytes] = []

    def take_three(data: bytes) -> int:
        taken.append(data[:3])
        return len(taken[-1])

    def take_none(data: bytes) -> int:
        raise BlockingIOError

    assert not lane.flush(0.9, take_three)
    assert lane.flush(1.0, take_three)  # it is full
    assert lane.flush(1.0, take_none)
    assert not lane.flush(1.0, take_three)
    assert taken == [b"fir", b"st"]
    assert (lane.held, arrivals(lane)) == (6, [(1.5, b"second")])


def test_healed_is_at_once_and_less_delay_for_what_is_under_way_too(way: Way) -> None:
    way.change(None, 10.0, 0.0)
    lane = Lane(way)
    lane.add(0.0, b"x")
    way.change(None, 2.0, 0.0)
    lane.obey(1.0)
    assert arrivals(lane) == [(3.0, b"x")]
    way.change(None, 0.0, 0.0)
    lane.obey(1.5)
    assert arrivals(lane) == [(1.5, b"x")]
    assert not lane.torn


def test_what_is_under_way_vanishes_with_the_way(way: Way) -> None:
    way.change(None, 10.0, 0.0)
    lane, idle = Lane(way), Lane(way)
    lane.add(0.0, b"x")
    way.lost = True
    for each in (lane, idle):
        each.obey(1.0)
    assert (lane.torn, idle.torn) == (True, False)
    assert (lane.held, arrivals(lane)) == (0, [])
    assert lane.readable_at(1.0) == 1.0  # to lose that, too


def test_an_ended_source_is_not_read(way: Way) -> None:
    lane = Lane(way)
    lane.ended = True
    assert lane.readable_at(0.0) == NEVER


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
