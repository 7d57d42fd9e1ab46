"""What a log of keys says of records that nobody followed one by one."""

from collections import deque
from typing import Any

import pytest

from kafka_partition_events.clients.flight.key_log import NOTHING, PENDING, UNVOUCHED, KeyLog, Mark


@pytest.fixture
def log() -> KeyLog:
    return KeyLog(room=1000)


def marked(log: KeyLog, partition: int, offset: int) -> Mark:
    mark = Mark(b"marked", partition, offset)
    log.append(mark)
    return mark


def test_a_key_that_was_never_logged_has_no_record(log: KeyLog) -> None:
    log.append(b"other")
    assert log.earlier(b"key", 0) == NOTHING


def test_text_and_what_is_like_bytes_are_one_key(log: KeyLog) -> None:
    log.append("key")
    assert log.earlier(b"key", 0) == UNVOUCHED
    log.append(memoryview(b"other"))
    assert log.earlier(b"other", 0) == UNVOUCHED


@pytest.mark.parametrize("key", ["\ud800", 10**13, -1, object()])
def test_what_no_client_takes_for_a_key_is_passed_over(log: KeyLog, key: object) -> None:
    for entry in (b"before", key, b"after"):
        log.append(entry)
    marked(log, 0, 7)
    assert [log.earlier(logged, 0) for logged in (b"before", b"after", b"new")] == [7, 7, NOTHING]


class Interrupted(deque[Any]):
    """Entries; a handler runs once so many are taken: ``popleft`` is a C call."""

    at = 0

    def popleft(self) -> Any:
        entry = super().popleft()
        self.at -= 1
        if self.at == 0:
            self.handler()
        return entry

    def handler(self) -> None:
        raise KeyboardInterrupt


def test_a_log_that_overflows_while_it_is_read_says_so() -> None:
    log = KeyLog(room=10)
    log._entries = entries = Interrupted([b"first", b"key"], maxlen=log._entries.maxlen)
    entries.at = 1
    entries.handler = lambda: entries.extend([b"other"] * 100)  # type: ignore[method-assign]
    assert log.earlier(b"key", 0) == UNVOUCHED


def test_however_many_are_outstanding_each_is_known_and_what_came_before_it() -> None:
    log = KeyLog(100_000)
    for number in range(20_000):
        marked(log, 0, number)
    for number in range(20_000):
        log.append(Mark(b"%d" % number, 0))
    for number in (0, 10_000, 19_999):
        assert log.earlier(b"%d" % number, 0) == PENDING
        assert log.earlier(b"%d" % number, 0, recalled=True) == NOTHING
    assert log.earlier(b"none", 0) == NOTHING


def test_a_mark_vouches_for_no_other_one_as_two_threads_may_hand_over_in_the_other_order() -> None:
    log = KeyLog(room=4)
    first = Mark(b"key", 0)
    for entries in ([first], [b"1", b"2", b"3"], [Mark(b"marked", 0, offset=0), b"4"]):
        for entry in entries:
            log.append(entry)
        log.earlier(b"other", 0)
    first.offset = 1  # logged first, and handed over after the other one
    assert log.earlier(b"key", 0) == 1, "although the key is forgotten"


def test_a_forgotten_mark_without_a_report_is_waited_for_by_its_own_key() -> None:
    log = KeyLog(room=4)
    first = Mark(b"key", 0)
    log.append(first)
    for number in range(5):
        log.append(b"%d" % number)
    marked(log, 0, 0)
    assert log.earlier(b"key", 0) == PENDING
    assert log.earlier(b"key", 0, recalled=True) >= NOTHING
    assert log.earlier(b"4", 0) >= NOTHING
    first.offset = 1
    assert log.earlier(b"key", 0) == 1
    assert log.earlier(b"4", 0) == 1, "never too early"


class TestALogWithoutRoom:
    @pytest.fixture
    def log(self) -> KeyLog:
        return KeyLog(room=4)

    def test_takes_any_key_for_outstanding(self, log: KeyLog) -> None:
        for number in range(50):
            log.append(b"%d" % number)
        assert log.earlier(b"new", 0) == UNVOUCHED

    def test_forgets_the_oldest_keys_of_its_index(self, log: KeyLog) -> None:
        for number in range(12):
            log.append(b"%d" % number)
            marked(log, 0, number)
            log.earlier(b"new", 0)
        assert log.earlier(b"11", 0) == 11
        assert 0 < log.earlier(b"new", 0) < 11, "not before any that is forgotten"


class TestASignalWhileItIsRead:
    def a_log(self, at: int) -> tuple[KeyLog, Interrupted]:
        log = KeyLog(room=1000)
        for entry in (b"1", Mark(b"2", 0, offset=2), b"key", Mark(b"4", 0, offset=4)):
            log.append(entry)
        log._entries = entries = Interrupted(log._entries, maxlen=log._entries.maxlen)
        log.append, entries.at = entries.append, at
        return log, entries

    @pytest.mark.parametrize("at", range(1, 5))
    def test_that_raises_has_no_key_be_taken_for_finished(self, at: int) -> None:
        log, _ = self.a_log(at)
        with pytest.raises(KeyboardInterrupt):
            log.earlier(b"any", 0)
        assert log.earlier(b"key", 0) in {4, UNVOUCHED}
        marked(log, 0, 5)
        assert log.earlier(b"key", 0) in {4, 5}

    @pytest.mark.parametrize("at", range(1, 5))
    def test_that_asks_itself_gets_no_early_offset(self, at: int) -> None:
        log, entries = self.a_log(at)
        asked: list[int] = []
        entries.handler = lambda: asked.append(log.earlier(b"key", 0))  # type: ignore[method-assign]
        log.earlier(b"any", 0)
        assert asked == [UNVOUCHED]
        assert log.earlier(b"key", 0) == 4
