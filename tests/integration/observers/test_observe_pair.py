"""Two observers of one cluster, one Alertmanager: a broker dies, and one alert tells, whoever is ill."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_partition_events.testing import KafkaCluster
from tests.alertmanager_kit import Alertmanager
from tests.http_receiver import Receiver
from tests.observe_kit import Observer, alertmanager

pytestmark = pytest.mark.kafka
HOLD_S = 3
RARER = [pytest.param(each, marks=pytest.mark.weekly) for each in ("full", "a day ahead", "a day behind")]
NOTICED_S = 12.0
"""What it takes Kafka's controller to notice that a broker was killed, and a look."""


@pytest.fixture
def pager() -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        yield receiver


@pytest.fixture(name="manager")
def manager_(request: pytest.FixtureRequest, tmp_path: Path, pager: Receiver) -> Iterator[Alertmanager]:
    started = Alertmanager(request.getfixturevalue("alertmanager"), tmp_path / "am", pager.url)
    yield started
    started.process.kill()


@pytest.mark.parametrize("illness", ["killed", "frozen", "blind", *RARER])
def test_a_broker_that_dies_is_one_alert_whoever_is_ill(
    illness: str,
    cluster: KafkaCluster,
    topic: str,
    manager: Alertmanager,
    pager: Receiver,
    observer: Callable[..., Observer],
) -> None:
    one, other = (
        observer(name, alertmanager(manager.url, HOLD_S)).start("tests.sick_observer") for name in "ab"
    )
    for each in (one, other):
        each.ready()
    days = {"a day ahead": 86_400, "a day behind": -86_400}
    if illness in days:
        one.clock.write_text(str(days[illness]))
    elif illness != "killed":
        one.fall_ill(illness)
    cluster.kill(2)
    died_at = time.monotonic()
    try:
        if illness == "killed":  # in the middle: it has seen it, and has not told
            other.wait_until("seen", lambda: other.metric("kpe_alert_condition", broker="2") is not None)
            one.end(signal.SIGKILL)
        manager.wait_until("firing", lambda: brokers(manager) == ["2"])
        assert time.monotonic() - died_at < NOTICED_S + HOLD_S + 10.0
        (alert,) = (a for a in manager.active if a["labels"]["alertname"] == "KafkaBrokerMissing")
        assert (alert["labels"]["kafka_cluster"], alert["labels"]["severity"]) == ("prod", "critical")
        assert topic in alert["annotations"]["partitions_offline"]
        time.sleep(8.0)  # longer than an interval after which it is posted again
        assert brokers(manager) == ["2"]
    finally:
        cluster.restart(2)
    manager.wait_until("over", lambda: brokers(manager) == [])
    manager.wait_until("told", lambda: notified(pager)[-1:] == ["resolved"])
    assert notified(pager) == ["firing", "resolved"]
    one.recover() if illness != "killed" else None


def brokers(manager: Alertmanager) -> list[str]:
    named = (alert["labels"] for alert in manager.active)
    return [labels["broker"] for labels in named if labels["alertname"] == "KafkaBrokerMissing"]


def notified(pager: Receiver) -> list[str]:
    """Return what the pager heard of the broker."""
    alerts = (alert for request in pager.requests for alert in json.loads(request.body)["alerts"])
    return [alert["status"] for alert in alerts if alert["labels"]["alertname"] == "KafkaBrokerMissing"]
