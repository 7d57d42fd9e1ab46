"""Keyed records of a topic that is not known yet: they wait in order, and each has one outcome."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from kafka_partition_events import PartitionOfflineError
from kafka_partition_events.clients.confluent.unassigned import NotPlacedError, Record, Unassigned

LIMIT_S = 5.0
MOST_BYTES = 100


class Bench:
    """What is known, what was sent, and what was told, of `Unassigned` that a test calls."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.sent: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.messages: list[Message] = []
        self.send: Callable[[Record], None] = lambda record: self.sent.append(str(record.value))
        self.unassigned = Unassigned(self.known.__contains__, self._send, LIMIT_S, MOST_BYTES)

    def _send(self, record: Record) -> None:
        self.send(record)

    def add(self, value: str, topic: str = "orders") -> None:
        def note(error: Any, message: Message) -> None:
            self.told.append((value, error.name()))
            self.messages.append(message)

        self.unassigned.add(Record(topic, value, "key", note, 0, [("h", b"1")]))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_are_sent_in_order_when_the_topic_is_known(bench: Bench) -> None:
    for value in "abc":
        assert bench.unassigned.takes("orders")
        bench.add(value)
    bench.unassigned.listened()
    assert (bench.sent, len(bench.unassigned), bench.unassigned.topics()) == ([], 3, ["orders"])
    bench.known.add("orders")
    assert bench.unassigned.takes("orders"), "behind those that wait"
    bench.add("d")
    assert bench.sent == ["a", "b", "c", "d"]
    assert not bench.unassigned.takes("orders")
    assert (len(bench.unassigned), bench.unassigned.topics(), bench.told) == (0, [], [])


def test_of_one_topic_do_not_wait_for_another(bench: Bench) -> None:
    bench.add("a", "payments")
    bench.add("b", "orders")
    bench.known.add("orders")
    bench.unassigned.listened()
    assert (bench.sent, bench.unassigned.topics()) == (["b"], ["payments"])


def test_stay_while_librdkafkas_queue_is_full(bench: Bench) -> None:
    def full(_record: Record) -> None:
        raise BufferError("Local: Queue full")

    usual, bench.send = bench.send, full
    bench.known.add("orders")
    bench.add("a")
    bench.add("b")
    assert (len(bench.unassigned), bench.told) == (2, [])
    bench.send = usual
    bench.unassigned.listened()
    assert bench.sent == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), "MSG_SIZE_TOO_LARGE"),
        (PartitionOfflineError("partition 1 of topic orders has no leader"), "_UNKNOWN_PARTITION"),
        (TypeError("a partitioner of the application's own"), "_UNKNOWN_PARTITION"),
        (RuntimeError(), "_UNKNOWN_PARTITION"),
    ],
)
def test_fail_alone_when_they_are_refused(bench: Bench, error: Exception, name: str) -> None:
    def refuse_one(record: Record) -> None:
        if record.value == "a":
            raise error
        bench.sent.append(str(record.value))

    bench.send = refuse_one
    bench.add("a")
    bench.add("b")
    bench.known.add("orders")
    bench.add("c")
    assert (bench.sent, bench.told) == (["b", "c"], []), "told by poll, not by produce"
    assert len(bench.unassigned) == 1
    bench.unassigned.listened()
    assert (bench.told, len(bench.unassigned)) == ([("a", name)], 0)


def test_fail_when_their_time_is_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    bench.add("a")
    now += LIMIT_S / 2
    bench.add("b")
    now += LIMIT_S / 2
    bench.unassigned.listened()
    assert bench.told == [("a", "_MSG_TIMED_OUT")]
    message = bench.messages[0]
    assert (message.topic(), message.key(), message.value()) == ("orders", b"key", b"a")
    assert message.headers() == [("h", b"1")]
    bench.known.add("orders")
    bench.unassigned.listened()
    assert bench.sent == ["b"]


def test_are_not_too_late_while_nobody_calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is known in time; that it was not looked at is no fault of the record."""
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    bench.add("a")
    bench.known.add("orders")
    now += 2 * LIMIT_S
    bench.unassigned.listened()
    assert (bench.sent, bench.told) == (["a"], [])


def test_fail_at_once_where_nothing_will_be_known_any_more(bench: Bench) -> None:
    bench.add("a")
    bench.unassigned.hopeless = lambda: True
    bench.unassigned.listened()
    assert bench.told == [("a", "_UNKNOWN_TOPIC")]


def test_stay_when_their_topic_is_forgotten_just_then(bench: Bench) -> None:
    def forgotten(_record: Record) -> None:
        raise NotPlacedError

    usual, bench.send = bench.send, forgotten
    bench.known.add("orders")
    bench.add("a")
    assert (len(bench.unassigned), bench.told) == (1, [])
    bench.send = usual
    bench.unassigned.place()
    assert bench.sent == ["a"]


def test_whose_partition_librdkafka_does_not_know_fail_when_their_time_is_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown_there(_record: Record) -> None:
        raise NotPlacedError

    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    usual, bench.send = bench.send, unknown_there
    bench.known.add("orders")
    bench.add("a")
    now += LIMIT_S / 2
    bench.add("b")
    assert (len(bench.unassigned), bench.told) == (2, [])
    now += LIMIT_S / 2
    bench.unassigned.listened()
    assert bench.told == [("a", "_MSG_TIMED_OUT")]
    bench.send = usual
    bench.unassigned.place()
    assert bench.sent == ["b"]


def test_have_the_headers_that_they_were_given(bench: Bench) -> None:
    headers = {"n": b"1"}
    bench.unassigned.add(Record("orders", None, "key", None, 0, headers))
    headers["n"] = b"2"
    bench.send = lambda record: bench.sent.append(str(record.headers))
    bench.known.add("orders")
    bench.unassigned.place()
    assert bench.sent == ["{'n': b'1'}"]


def test_fail_when_they_are_purged(bench: Bench) -> None:
    bench.add("a")
    bench.unassigned.purge()
    bench.known.add("orders")
    bench.unassigned.listened()
    assert (bench.sent, bench.told) == ([], [("a", "_PURGE_QUEUE")])


def test_are_refused_when_too_many_bytes_wait(bench: Bench) -> None:
    bench.add("a" * 90)
    with pytest.raises(BufferError, match="Queue full"):
        bench.add("b" * 8)
    bench.add("b" * 4)
    bench.known.add("orders")
    bench.unassigned.listened()
    bench.known.clear()
    bench.add("c" * 97)
    assert (len(bench.sent), len(bench.unassigned)) == (2, 1)


def test_that_are_purged_make_room(bench: Bench) -> None:
    bench.add("a" * 90)
    bench.unassigned.purge()
    bench.add("b" * 90)


def test_that_a_signal_handler_adds_stand_behind(bench: Bench) -> None:
    """It runs on the thread that is just sending."""

    def interrupted(record: Record) -> None:
        if record.value == "a":
            assert bench.unassigned.takes("orders")
            bench.add("from the handler")
        bench.sent.append(str(record.value))

    bench.send = interrupted
    bench.add("a")
    bench.add("b")
    bench.known.add("orders")
    bench.unassigned.listened()
    assert bench.sent == ["a", "b", "from the handler"]


def test_without_a_callback_fail_in_silence_as_with_librdkafka(bench: Bench) -> None:
    bench.unassigned.add(Record("orders", None, b"key", None, 0, None))
    bench.unassigned.purge()
    bench.unassigned.listened()
    assert len(bench.unassigned) == 0
