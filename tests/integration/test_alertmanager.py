"""Alertmanager itself, fed from an outbox: alerts last as long as incidents, whoever is killed meanwhile."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_partition_events.incidents import IncidentReader
from kafka_partition_events.metadata.clock import SystemClock
from kafka_partition_events.observe.settings import Kafka
from kafka_partition_events.observe.sink_runner import SinkRunner
from kafka_partition_events.observe.sink_settings import AlertmanagerSinkSettings
from kafka_partition_events.outbox import SqliteOutbox, Stream, Write
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.ports import HOST, free_ports
from tests.alertmanager_kit import LIMIT_S, Alertmanager
from tests.http_receiver import Receiver
from tests.incident_kit import World

REPEAT_S = 1.0
LASTS_S = 4 * REPEAT_S
"""Until when an alert lasts that is not posted again."""


class Observer:
    """An outbox, and what derives incidents and feeds sinks from it; its cluster is a story that is told."""

    def __init__(self, path: Path, *urls: str) -> None:
        self.outbox = SqliteOutbox(path)
        sink = AlertmanagerSinkSettings(name="am", urls=urls, repeat_interval=REPEAT_S, max_delay=1.0)
        self.runner = SinkRunner(
            self.outbox,
            [sink],
            Kafka(),
            margin=0.0,
            clock=SystemClock(),
            holds_to=lambda _: None,
        )
        self.runner.start()

    def waits(self) -> bool:
        return self.outbox.stats("am").waiting > 0

    def close(self) -> None:
        self.runner.stop()
        self.outbox.close()


class Story:
    """A cluster that loses broker 2 and gets it back; two minutes have passed for whoever observes it."""

    def __init__(self) -> None:
        self._world = World([1, 2, 3], {"orders": [[2], [3]]})
        self._began = datetime.now(UTC) - timedelta(minutes=2)

    def lose(self, outbox: SqliteOutbox) -> None:
        self._look(outbox, 0, 0)
        self._world.down(2)
        self._look(outbox, 10, 60)

    def regain(self, outbox: SqliteOutbox) -> None:
        self._world.up(2)
        self._look(outbox, 110, 119)

    def _look(self, outbox: SqliteOutbox, seconds: float, told: float) -> None:
        seen, now = (self._began + timedelta(seconds=each) for each in (seconds, told))
        before = None if seconds == 0 else seen - timedelta(seconds=5)
        entries = self._world.look(seconds, wall_time=seen, previous_at=before)
        outbox.write(Write(entries=entries))
        IncidentReader(outbox, clock=ManualClock(wall=now)).run_once()


@pytest.fixture
def pager() -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        yield receiver


@pytest.fixture
def pair(alertmanager: str, tmp_path: Path, pager: Receiver) -> Iterator[list[Alertmanager]]:
    with Receiver(200) as nobody:
        started = [
            Alertmanager(alertmanager, tmp_path / "one", pager.url),
            Alertmanager(alertmanager, tmp_path / "other", nobody.url),
        ]
        yield started
        for each in started:
            each.process.kill()


def notified(pager: Receiver) -> list[tuple[str, str]]:
    """Return status and name of the alerts that the pager heard of."""
    bodies = [json.loads(request.body) for request in pager.requests]
    return [(alert["status"], alert["labels"]["alertname"]) for body in bodies for alert in body["alerts"]]


def test_an_alert_lasts_as_long_as_its_incident(
    pair: list[Alertmanager], pager: Receiver, tmp_path: Path
) -> None:
    one, other = pair
    story, path = Story(), tmp_path / "outbox.db"
    observer = Observer(path, one.url, other.url)
    story.lose(observer.outbox)
    for each in pair:
        each.wait_until("firing", lambda each=each: len(each.active) == 1)  # type: ignore[misc]
    pager.wait_for(1)
    assert notified(pager) == [("firing", "KafkaBrokerLost")]

    # Posted again and again, also by a process that begins anew and has nothing to deliver.
    observer.close()
    observer = Observer(path, one.url, other.url)
    assert not observer.waits()
    (alert,) = one.active
    began = time.monotonic()
    one.wait_until("older than it would get", lambda: time.monotonic() > began + 1.5 * LASTS_S)
    (again,) = one.active
    assert (again["fingerprint"], again["startsAt"]) == (alert["fingerprint"], alert["startsAt"])
    assert again["endsAt"] > alert["endsAt"]

    # One is enough to be told of the end, and nothing waits for the other.
    other.process.kill()
    story.regain(observer.outbox)
    one.wait_until("over", lambda: one.active == [])
    one.wait_until("told", lambda: notified(pager)[-1] == ("resolved", "KafkaBrokerLost"))
    one.wait_until("settled", lambda: not observer.waits())
    assert len(notified(pager)) == 2
    observer.close()


def test_what_an_observer_leaves_behind_ends_by_itself(
    pair: list[Alertmanager], pager: Receiver, tmp_path: Path
) -> None:
    one, _ = pair
    observer = Observer(tmp_path / "outbox.db", one.url)
    Story().lose(observer.outbox)
    one.wait_until("firing", lambda: len(one.active) == 1)
    observer.close()
    one.wait_until("over", lambda: one.active == [])
    pager.wait_for(2, timeout=LIMIT_S)
    assert [status for status, _ in notified(pager)] == ["firing", "resolved"]


def test_nothing_is_lost_while_there_is_none(alertmanager: str, tmp_path: Path, pager: Receiver) -> None:
    (nobody,) = free_ports(1)
    observer = Observer(tmp_path / "outbox.db", f"http://{HOST}:{nobody}")
    Story().lose(observer.outbox)
    assert observer.outbox.stats("am").waiting == 1
    observer.close()
    there = Alertmanager(alertmanager, tmp_path / "one", pager.url)
    observer = Observer(tmp_path / "outbox.db", there.url)
    there.wait_until("firing", lambda: len(there.active) == 1)
    observer.close()
    there.process.kill()


def test_labels_are_as_alertmanager_wants_them(pair: list[Alertmanager], tmp_path: Path) -> None:
    """An error in one alert is one of the whole request."""
    one, _ = pair
    observer = Observer(tmp_path / "outbox.db", one.url)
    Story().lose(observer.outbox)
    one.wait_until("firing", lambda: len(one.active) == 1)
    assert set(one.active[0]["labels"]) == {
        "alertname", "kafka_cluster", "broker", "severity", "incident_id",
    }  # fmt: skip
    assert observer.outbox.dead_letters() == []
    assert observer.outbox.readers()["am"] is Stream.INCIDENTS
    observer.close()
