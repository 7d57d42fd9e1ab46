"""A term of office that ends leaves nothing behind, however it has ended."""

import contextlib
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.protocol.codec import encode
from kafka_partition_events.control.protocol.records import Lease
from kafka_partition_events.control.tracker import leadership
from kafka_partition_events.control.tracker.leadership import Leadership, TrackerConfig
from kafka_partition_events.errors import ControlTopicError

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}


def new_clients(before: set[Path]) -> list[str]:
    """Return the main thread of each librdkafka client that has come since; those of other tests may end."""
    new = []
    for thread in threads() - before:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
            new.append((thread / "comm").read_text())
    return [name for name in new if name == "rdk:main\n"]


def threads() -> set[Path]:
    return set(Path("/proc/self/task").iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted by /proc")
def test_no_client_stays_although_somebody_holds_what_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "_LIMIT_S", 0.2)
    setting = TrackerConfig(config=NOBODY, prefix="kpe.", policy=Policy())
    before = threads()
    with pytest.raises(KafkaException) as held:
        Leadership(setting)
    assert new_clients(before) == []
    assert held.value.args[0].name() == "_TIMED_OUT"


def test_the_slowest_brokers_clock_counts_and_time_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 10.0)
    term = Leadership.__new__(Leadership)
    term._clocks, term._now_ms, term._set_back = {1: 5_000_000.0, 2: 9_000_000.0}, 0, False
    assert term.now_ms == 5_010_000
    term._clocks[3] = 1_000_000.0
    assert term.now_ms == 5_010_000


def test_the_trackers_own_lease_is_no_producers() -> None:
    log = ControlLog(NOBODY, "kpe.")
    values = [encode(Lease(instance_id=name, incarnation="1", lease_seq=1)) for name in ("kpe-tracker", "a")]
    log._topics = SimpleNamespace(read=lambda *_: [*map(message, values)])  # type: ignore[assignment]
    log.read(1.0)
    assert list(log.ledger.leases) == ["a"]


def message(value: bytes) -> SimpleNamespace:
    read = {"topic": lambda: "kpe.leases", "value": lambda: value, "timestamp": lambda: (2, 5)}
    return SimpleNamespace(**read, partition=lambda: 0, offset=lambda: 0)


class TestABrokersClockThatIsSet:
    NOW_MS = 1_700_000_000_000

    @pytest.fixture
    def term(self, monkeypatch: pytest.MonkeyPatch) -> Leadership:
        monkeypatch.setattr(time, "monotonic", lambda: 10.0)
        term = Leadership.__new__(Leadership)
        term._clocks, term._now_ms, term._set_back, term._proven_at = {}, 0, False, 10.0
        term._lease = Lease(instance_id="t", incarnation="1", lease_seq=1)
        self.hear(term, 1, self.NOW_MS)
        return term

    def hear(self, term: Leadership, leader: int, appended_ms: int) -> None:
        message: Any = SimpleNamespace(timestamp=lambda: (2, appended_ms))
        term._heard(leader, None, message)

    def test_forward_opens_no_gate_early_and_drops_no_producer(self, term: Leadership) -> None:
        self.hear(term, 1, self.NOW_MS + 200)
        for ahead_ms in (3_600_000, 3_700_000):
            self.hear(term, 1, self.NOW_MS + ahead_ms)
        assert term.now_ms == self.NOW_MS + 200
        assert term._is_proven()

    def test_back_ends_the_term_before_anything_grows(self, term: Leadership) -> None:
        self.hear(term, 1, self.NOW_MS - 5_000)  # it came late
        assert term._is_proven()
        self.hear(term, 1, self.NOW_MS - 3_600_000)
        assert not term._is_proven()
        with pytest.raises(ControlTopicError, match="the clock of a broker was set back"):
            _ = term.now_ms
