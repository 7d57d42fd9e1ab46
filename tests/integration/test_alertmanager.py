"""Prometheus and Alertmanager themselves: what is posted and what is scraped is one alert."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import define

from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.observe.service import Service
from kafka_partition_events.observe.settings import (
    AlertmanagerSinkSettings,
    Alerts,
    Http,
    Kafka,
    Observer,
    Outbox,
    Settings,
)
from kafka_partition_events.testing.ports import HOST
from kafka_partition_events.testing.scripted import observe
from tests.alertmanager_kit import Alertmanager
from tests.http_receiver import Receiver

HOLD_S = 2.0
REPEAT_S = 1.0
TOPICS: Any = {f"t{n:02}": {"partitions": [{"leader": 2, "replicas": [2]}] * 100} for n in range(20)}
LOST: Any = {f"t{n:02}": {"partitions": [{"leader": None, "replicas": [2]}] * 100} for n in range(20)}


@define(eq=False)
class Cluster:
    """A source for two observers: 2,000 partitions on broker 2, which may be lost."""

    lost: bool = False

    def fetch(self, topics: Any, /, *, timeout: float) -> Observation:
        topics, brokers = (LOST, [1]) if self.lost else (TOPICS, [1, 2])
        return observe(topics, brokers=brokers, cluster_id="c-1")

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def pager() -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        yield receiver


@pytest.fixture
def manager(alertmanager: str, tmp_path: Path, pager: Receiver) -> Iterator[Alertmanager]:
    started = Alertmanager(alertmanager, tmp_path / "am", pager.url)
    yield started
    started.process.kill()


@contextmanager
def observing(cluster: Cluster, path: Path, *urls: str) -> Iterator[Service]:
    sinks = (AlertmanagerSinkSettings(name="am", urls=urls, repeat_interval=REPEAT_S),) if urls else ()
    settings = Settings(
        kafka=Kafka(bootstrap_servers="x:1", name="prod"),
        observer=Observer(name=path.stem, interval=0.2),
        alerts=Alerts(hold_down=HOLD_S, broker_hold_down=HOLD_S),
        outbox=Outbox(path=str(path)),
        http=Http(listen=(HOST, 0)),
        sinks=sinks,
    )
    with Service(settings, lambda _kafka: cluster) as service:
        yield service


def notified(pager: Receiver) -> list[tuple[str, str]]:
    """Return status and name of the alerts that the pager heard of."""
    bodies = [json.loads(request.body) for request in pager.requests]
    return [(alert["status"], alert["labels"]["alertname"]) for body in bodies for alert in body["alerts"]]


def fires(manager: Alertmanager) -> Callable[[], bool]:
    return lambda: [alert["labels"]["alertname"] for alert in manager.active] == ["KafkaBrokerMissing"]


def test_2000_partitions_under_two_observers_are_one_notification_and_one_end(
    manager: Alertmanager, pager: Receiver, tmp_path: Path
) -> None:
    cluster = Cluster()
    with ExitStack() as one, observing(cluster, tmp_path / "b.db", manager.url) as other:
        one.enter_context(observing(cluster, tmp_path / "a.db", manager.url))
        manager.wait_until("ready", lambda: other.why_not_ready() is None)
        cluster.lost, lost_at = True, time.monotonic()
        manager.wait_until("firing", fires(manager))
        assert time.monotonic() - lost_at < HOLD_S + 10.0
        (alert,) = manager.active
        assert alert["labels"] == {
            "alertname": "KafkaBrokerMissing", "kafka_cluster": "prod", "broker": "2", "severity": "critical",
        }  # fmt: skip
        assert alert["annotations"]["partitions_offline"].startswith("2000: t00 0-99; ")
        one.close()  # one of them is stopped amid it
        began = time.monotonic()
        manager.wait_until("older than it would get", lambda: time.monotonic() > began + 6 * REPEAT_S)
        assert len(manager.active) == 1
        cluster.lost = False
        manager.wait_until("over", lambda: manager.active == [])
        manager.wait_until("told", lambda: notified(pager)[-1][0] == "resolved")
    assert notified(pager) == [("firing", "KafkaBrokerMissing"), ("resolved", "KafkaBrokerMissing")]


def test_what_observers_leave_behind_ends_by_itself(manager: Alertmanager, tmp_path: Path) -> None:
    with observing(Cluster(lost=True), tmp_path / "a.db", manager.url):
        manager.wait_until("firing", fires(manager))
    manager.wait_until("over", lambda: manager.active == [])


def test_a_silence_made_in_alertmanager_holds(manager: Alertmanager, pager: Receiver, tmp_path: Path) -> None:
    now = time.time()
    silence = {
        "matchers": [{"name": "broker", "value": "2", "isRegex": False, "isEqual": True}],
        "startsAt": _stamp(now - 60), "endsAt": _stamp(now + 600), "createdBy": "ada", "comment": "a test",
    }  # fmt: skip
    assert httpx.post(f"{manager.url}/api/v2/silences", json=silence).is_success
    with observing(Cluster(lost=True), tmp_path / "a.db", manager.url):
        manager.wait_until("there", fires(manager))
        time.sleep(3 * REPEAT_S)
        assert manager.active[0]["status"]["state"] == "suppressed"
    assert notified(pager) == []


def _stamp(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
