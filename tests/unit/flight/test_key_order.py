"""Where the records of a key go, and which of them wait."""

from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.clients.flight import key_order
from kafka_partition_events.clients.flight.key_moves import MoveKeys, stand_in
from kafka_partition_events.clients.flight.key_order import FIRST, KeyOrder
from kafka_partition_events.clients.flight.record import Attempt
from kafka_partition_events.routing.table import Route, compile_route
from kafka_partition_events.testing.scripted import cluster_of

SECOND = 1
KEY = b"\1"
HOME = 1
WELL = compile_route(cluster_of({"t": [1, 2, 3, 4]}, brokers=[1, 2, 3, 4]).by_topic["t"])
LED_BADLY = evolve(WELL, safe=frozenset({0, 2, 3}))  # all but the key's home, whose leader is suspect
SICK = evolve(LED_BADLY, held_up=frozenset({HOME}))  # or a replica of it


def attempt(home: int = HOME, handle: int = FIRST) -> Attempt:
    return Attempt("t", home, handle)


class Keys:
    """A `KeyOrder`, and the short questions of these tests."""

    def __init__(self, moves: MoveKeys | None = None, **options: Any) -> None:
        self.closed: list[str] = []
        self.order = KeyOrder(self.closed.append, moves, **options)

    def send(
        self, key: bytes = KEY, route: Route | None = WELL, handle: int = SECOND
    ) -> tuple[int, int] | None:
        """Place a record; return its partition and handle, None if it is to be held."""
        sent = attempt(key[0] % 4, handle)
        if not self.order.place(sent, key, route):
            return None
        self.sent = sent
        return sent.partition, sent.handle

    def report(self, offset: int | None = 0) -> None:
        self.order.reported(self.sent, offset)

    def log(self, key: bytes = KEY, offset: int | None = None) -> None:
        """Log a record as it is done while all is well; with an offset: one that is marked, and reported."""
        if offset is None:
            self.order.log("t", key)
        else:
            marked = attempt(key[0] % 4)
            self.order.mark(marked, key)
            self.order.reported(marked, offset)


@pytest.fixture
def keys() -> Keys:
    """Keys that stay."""
    return Keys()


@pytest.fixture
def moving() -> Keys:
    return Keys(MoveKeys())


class TestAKeyThatStays:
    def test_returns_to_the_first_handle_where_nobody_follows_the_topic_any_more(self, keys: Keys) -> None:
        assert keys.send() == (HOME, SECOND)
        assert keys.send(route=None) is None, "the second handle may be closed"
        keys.report()
        assert keys.send(route=None) == (HOME, FIRST)

    def test_waits_for_its_suspect_leader_where_its_records_are(self, keys: Keys) -> None:
        assert keys.send(handle=FIRST) == (HOME, FIRST)
        assert keys.send(route=LED_BADLY) == (HOME, FIRST)

    def test_waits_by_the_first_handle_where_its_home_has_no_leader(self, keys: Keys) -> None:
        topic = cluster_of({"t": [1, None, 3, 4]}, brokers=[1, 3, 4]).by_topic["t"]
        route = evolve(compile_route(topic), safe=frozenset({0, 2, 3}))
        assert keys.send(route=route) == (HOME, FIRST)


class TestAKeyThatMoves:
    def test_names_its_record_in_a_partition_to_which_it_came_back_in_vain(self, moving: Keys) -> None:
        away, _ = moving.send(route=SICK) or (0, 0)
        moving.report(7)
        others = evolve(WELL, safe=frozenset({0, 2, 3}) - {away})
        moving.send(route=others)
        moving.report(None)
        moving.send(route=evolve(WELL, safe=frozenset({away})))
        assert moving.sent.after == b""
        moving.report(None)
        moving.send(route=others)
        assert moving.sent.after == b"%d:7" % away

    def test_leaves_a_home_without_a_leader(self, moving: Keys) -> None:
        topic = cluster_of({"t": [1, None, 3, 4]}, brokers=[1, 3, 4]).by_topic["t"]
        route = compile_route(topic)
        assert moving.order.must_place("t", KEY, route)
        assert (moving.send(route=route) or (HOME, 0))[0] != HOME

    def test_names_no_offset_that_is_too_early_where_its_own_is_forgotten(
        self, moving: Keys, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(key_order, "LOGGED", 1)
        for key in (KEY, b"\5"):
            assert moving.send(key) == (HOME, SECOND)
            moving.report(12)
        moving.send(route=SICK)
        assert moving.sent.after == b"1:12"

    def test_may_be_a_probe(self) -> None:
        keys = Keys(MoveKeys(), probe=lambda _topic, _route, partition: FIRST if partition == HOME else None)
        assert keys.send(route=SICK) == (HOME, FIRST)


def test_each_key_has_a_stand_in_that_changes_only_with_what_is_well() -> None:
    several = {stand_in(SICK, b"%d" % number) for number in range(50)}
    assert several == {0, 2, 3}
    for number in range(50):
        chosen = stand_in(SICK, b"%d" % number)
        fewer = evolve(WELL, safe=frozenset({chosen, 0}))
        assert stand_in(fewer, b"%d" % number) in {chosen, 0}


class TestATopicThatChangesWhileAKeyIsAway:
    GROWN = compile_route(cluster_of({"t": [1, 2, 3, 4] * 2}, brokers=[1, 2, 3, 4]).by_topic["t"])

    def test_takes_it_to_the_home_that_it_has_by_then(self, moving: Keys) -> None:
        away, _ = moving.send(route=SICK) or (0, 0)
        moving.report(7)
        back = attempt(5)
        assert moving.order.place(back, KEY, self.GROWN)
        assert (back.partition, back.handle, back.after) == (5, FIRST, b"%d:7" % away)
        assert moving.order.stats.displaced == 0
        moving.order.reported(back, 0)
        assert not moving.order.counts_some("t")

    def test_may_have_fewer_partitions(self, moving: Keys) -> None:
        assert moving.send(route=evolve(self.GROWN, safe=frozenset({6}))) == (6, SECOND)
        moving.report(7)
        assert moving.send(route=evolve(WELL, safe=frozenset({0}))) == (0, SECOND)
        assert moving.sent.after == b"6:7"


@pytest.mark.parametrize(("moves", "remembered"), [(None, 0), (MoveKeys(), 1)])
def test_where_keys_stay_no_offsets_are_remembered(moves: MoveKeys | None, remembered: int) -> None:
    keys = Keys(moves)
    assert keys.send() == (HOME, SECOND)
    keys.report(3)
    assert len(keys.order._of("t").delivered) == remembered


def test_a_signal_handler_may_place_a_record_of_the_same_key() -> None:
    def close(_topic: str) -> None:
        if not order.counts_some("t"):
            order._close = lambda _topic: None
            assert order.place(handlers, KEY, WELL)

    order, first, handlers = KeyOrder(close), attempt(), attempt()
    assert order.place(first, KEY, WELL)
    for offset, sent in enumerate((handlers, first)):
        assert order.counts_some("t")
        order.reported(sent, offset)
    assert not order.counts_some("t")


class TestWhatIsHeld:
    def held(self, keys: Keys, *records: str) -> None:
        """Have records wait for one that is outstanding on another handle."""
        assert keys.send(handle=FIRST)
        self.sent = keys.sent
        for record in records:
            assert keys.send() is None
            keys.order.hold("t", KEY, record)

    def report(self, keys: Keys) -> None:
        keys.order.reported(self.sent, 3)

    def test_closes_the_short_cut_that_was_opened_meanwhile(self, keys: Keys) -> None:
        self.held(keys)
        keys.closed.clear()
        opened: list[Any] = []
        keys.order.open("t", lambda counts, _log: opened.append(counts))
        keys.order.hold("t", KEY, "a")
        assert keys.closed == ["t"]

    @pytest.mark.parametrize("offset", [3, None], ids=["sent", "not taken"])
    def test_is_not_forgotten_if_two_threads_ask_about_it(self, keys: Keys, offset: int | None) -> None:
        self.held(keys, "a")
        keys.order.held()  # has it be asked about
        assert keys.order.take_ready(ask_again=True) == [("t", KEY)]
        assert keys.order.begin_release("t", KEY) == "a"
        assert not keys.order.place(attempt(HOME, SECOND), KEY, WELL, held=True)
        keys.order.reported(self.sent, offset)
        assert keys.order.take_ready(ask_again=True) == [("t", KEY)], "in the other thread"
        assert keys.order.begin_release("t", KEY) is None
        keys.order.end_release("t", KEY, released=False)
        assert keys.order.take_ready(ask_again=True) == [("t", KEY)]


class TestARecall:
    @pytest.fixture
    def hedging(self) -> Keys:
        return Keys(MoveKeys(), recalls=True)

    def sent(self, keys: Keys, count: int = 1, handle: int = FIRST, route: Route = WELL) -> list[Attempt]:
        found = []
        for _ in range(count):
            assert keys.send(handle=handle, route=route)
            found.append(keys.sent)
        return found

    def recall(self, keys: Keys, attempts: list[Attempt], route: Route = SICK) -> bool:
        again = [it.partition for it in attempts]
        return keys.order.recall(attempts, route, SECOND, lambda _home: again, lambda _attempts: None)

    def test_forgets_no_offset_that_was_acknowledged_by_a_further_handle(self, hedging: Keys) -> None:
        first, second = self.sent(hedging, 2, handle=SECOND)
        hedging.order.reported(first, 7)
        assert self.recall(hedging, [second], evolve(WELL, safe=frozenset({0, 2, 3})))
        assert hedging.order.begin_release("t", KEY) is not None
        sent = attempt()
        assert hedging.order.place(sent, KEY, WELL, held=True, recalled=True)
        assert (sent.partition, sent.handle) == (HOME, FIRST)
        hedging.order.end_release("t", KEY, released=True)
        hedging.order.reported(sent, None)
        self.sent(hedging, handle=SECOND, route=SICK)
        assert hedging.sent.after == b"1:7"

    def test_that_is_purged_leaves_nothing(self, hedging: Keys) -> None:
        assert self.recall(hedging, self.sent(hedging))
        assert hedging.order.begin_release("t", KEY) is not None
        hedging.order.end_release("t", KEY, released=True)
        assert not hedging.order.counts_some("t")


def test_a_topic_that_is_not_written_is_forgotten_if_keys_stay(keys: Keys, moving: Keys) -> None:
    for its, expected in ((keys, (HOME, SECOND)), (moving, (HOME, FIRST))):
        its.log()
        its.order.forget("t")
        assert its.send() == expected


def test_topics_share_the_room(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "LEAST_LOGGED", 4)
    monkeypatch.setattr(key_order, "LOGGED", 8)
    assert [keys.order._of(topic).log._room for topic in "abc"] == [8, 4, 4]
