"""`kpe observe` on a real cluster: those who are on call are told, whatever is killed meanwhile."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_partition_events.testing import KafkaCluster
from tests.alertmanager_kit import Alertmanager
from tests.http_receiver import Receiver
from tests.observe_kit import Observer
from tests.smtp_receiver import SmtpReceiver

pytestmark = pytest.mark.kafka

LASTS_S = 4.0
"""Until when an alert lasts that is not posted again: four intervals."""


@pytest.fixture
def alerts(alertmanager: str, tmp_path: Path) -> Iterator[Alertmanager]:
    with Receiver() as nobody:
        started = Alertmanager(alertmanager, tmp_path / "alertmanager", nobody.url)
        yield started
        started.process.kill()


def sinks(alerts: Alertmanager, pager: Receiver, mail: SmtpReceiver) -> str:
    return (
        f'[[sinks]]\nname = "alerts"\ntype = "alertmanager"\nurls = ["{alerts.url}"]\n'
        'repeat_interval = "1s"\n'
        f'[[sinks]]\nname = "phone"\ntype = "pagerduty"\nurl = "{pager.url}"\nallow_private = true\n'
        'routing_key = "0123456789abcdef0123456789abcdef"\n'
        f'[[sinks]]\nname = "mail"\ntype = "smtp"\nhost = "127.0.0.1"\nport = {mail.port}\n'
        'security = "none"\nsender = "kafka@example.com"\nto = ["noc@example.com"]\n'
        '[incidents]\nhold_down = "1s"\nbroker_hold_down = "1s"\nupdate_interval = "1h"\n'
    )


def test_an_incident_outlives_the_observer(
    cluster: KafkaCluster, topic: str, alerts: Alertmanager, observer: Callable[..., Observer]
) -> None:
    with Receiver(202) as pager, SmtpReceiver() as mail:
        observed = observer("on-call", sinks(alerts, pager, mail)).start().ready()
        assert observed.kpe("sink", "test", "phone").startswith("phone works: ")
        assert len(pager.wait_for(2)) == 2
        cluster.kill(2)
        try:
            alerts.wait_until("firing", lambda: len(alerts.active) == 1)
            pager.wait_for(3)
            observed.wait_until("mailed", lambda: len(mail.mails) == 1)

            (alert,) = alerts.active
            observed.kill()
            observed.start().ready()
            alerts.wait_until("firing", lambda: len(alerts.active) == 1)
            began = time.monotonic()
            alerts.wait_until("older than by itself", lambda: time.monotonic() > began + 1.5 * LASTS_S)
            (again,) = alerts.active
            assert (again["labels"], again["startsAt"]) == (alert["labels"], alert["startsAt"])
        finally:
            cluster.restart(2)
        alerts.wait_until("over", lambda: alerts.active == [])
        pager.wait_for(4)
        observed.wait_until("mailed", lambda: len(mail.mails) == 2)
        assert observed.end() == 0
        opened, closed = (json.loads(request.body) for request in pager.requests[2:])
        first, second = (each.message for each in mail.mails)
    assert alert["labels"]["alertname"] == "KafkaBrokerLost"
    assert alert["labels"]["broker"] == "2"
    assert [opened["event_action"], closed["event_action"]] == ["trigger", "resolve"]
    assert opened["dedup_key"] == closed["dedup_key"] == alert["labels"]["incident_id"]
    assert first["References"] == second["References"]
    told = observed.log.read_text()
    assert f"sink alerts: incidents to Alertmanager at {alerts.url}" in told
    assert "01234567" not in told
