"""A term of office that ends leaves nothing behind, however it has ended."""

import contextlib
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.tracker import leadership
from kafka_partition_events.control.tracker.leadership import Leadership, TrackerConfig

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


def test_the_slowest_clock_of_a_broker_counts_and_time_never_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 10.0)
    term = Leadership.__new__(Leadership)
    term._clocks, term._now_ms = {1: 5_000_000.0, 2: 9_000_000.0}, 0
    assert term.now_ms == 5_010_000
    term._clocks[3] = 1_000_000.0
    assert term.now_ms == 5_010_000
