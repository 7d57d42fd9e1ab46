"""`kpe sink`: what is configured, and a test incident that says that it is one."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.ports import free_ports
from tests.http_receiver import Receiver
from tests.smtp_receiver import SmtpReceiver

Captured = pytest.CaptureFixture[str]

KEY = "0123456789abcdef0123456789abcdef"
NAMED = '[[sinks]]\nname = "pager"\n'


def pagerduty(receiver: Receiver) -> str:
    return f'{NAMED}type = "pagerduty"\nurl = "{receiver.url}"\nrouting_key = "{KEY}"\nallow_private = true\n'


def alertmanager(*receivers: Receiver) -> str:
    return f'{NAMED}type = "alertmanager"\nurls = {json.dumps([receiver.url for receiver in receivers])}\n'


def webhook(receiver: Receiver, form: str) -> str:
    return f'{NAMED}type = "webhook"\nurl = "{receiver.url}"\nformat = "{form}"\nallow_private = true\n'


def smtp(port: int) -> str:
    return (
        f'{NAMED}type = "smtp"\nhost = "127.0.0.1"\nport = {port}\nsecurity = "none"\n'
        'sender = "kafka@example.com"\nto = ["noc@example.com"]\n'
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kpe.toml"


def kpe(file: Path, config: str, *arguments: str, clock: Any = None) -> int:
    file.write_text(config)
    name, *others = arguments
    return run(["sink", name, *others, "--config", str(file)], Services(clock=clock or ManualClock()))


def bodies(receiver: Receiver) -> list[Any]:
    return [json.loads(request.body) for request in receiver.requests]


def test_a_pager_is_triggered_and_resolved(file: Path, capsys: Captured) -> None:
    with Receiver(202) as receiver:
        assert kpe(file, pagerduty(receiver), "test", "pager") == 0
        first, second = bodies(receiver)
    assert [first["event_action"], second["event_action"]] == ["trigger", "resolve"]
    assert first["dedup_key"] == second["dedup_key"]
    assert first["payload"]["summary"] == "TEST, nothing is wrong: Incident: topic kpe-sink-test (unknown)"
    assert first["payload"]["severity"] == "critical"
    told = capsys.readouterr()
    assert (
        told.out == f"pager works: the test incident has begun and is over at PagerDuty at {receiver.url}\n"
    )
    assert [line.split()[1] for line in told.err.splitlines()] == ["incident.opened", "incident.closed"]


def test_an_alert_bears_a_label_that_routes_can_match(file: Path) -> None:
    with Receiver(200) as receiver:
        assert kpe(file, alertmanager(receiver), "test", "pager") == 0
        ((opened,), (closed,)) = bodies(receiver)
    assert opened["labels"] == {
        "alertname": "KafkaPartitionsOffline",
        "kafka_cluster": "unknown",
        "topic": "kpe-sink-test",
        "severity": "critical",
        "test": "true",
        "incident_id": closed["labels"]["incident_id"],
    }
    assert closed["labels"] == opened["labels"]
    assert opened["startsAt"] < closed["endsAt"] < opened["endsAt"]


@pytest.mark.parametrize("form", ["slack", "teams", "cloudevents", "alertmanager"])
def test_so_does_whatever_else_is_told(form: str, file: Path) -> None:
    with Receiver(200) as receiver:
        assert kpe(file, webhook(receiver, form), "test", "pager") == 0
        assert len(receiver.requests) == 2
        for request in receiver.requests:
            assert b"test" in request.body.lower().replace(b"kpe-sink-test", b"")


def test_mail_is_a_thread(file: Path) -> None:
    with SmtpReceiver() as receiver:
        assert kpe(file, smtp(receiver.port), "test", "pager") == 0
        first, second = (mail.message for mail in receiver.mails)
    assert "TEST, nothing is wrong: Incident: topic kpe-sink-test" in first["Subject"]
    assert "TEST, nothing is wrong: Incident is over: topic kpe-sink-test" in second["Subject"]
    assert first["References"] == second["References"]


def test_it_may_last(file: Path) -> None:
    clock, codes = ManualClock(), []
    with Receiver(200) as receiver:
        arguments = alertmanager(receiver), "test", "pager", "--hold", "1m"
        command = threading.Thread(target=lambda: codes.append(kpe(file, *arguments, clock=clock)))
        command.start()
        clock.wait_for_waiters()
        assert len(receiver.wait_for(1)) == 1
        clock.advance(60)
        command.join(10)
        ((opened,), (closed,)) = bodies(receiver)
    assert codes == [0]
    assert opened["startsAt"] == closed["startsAt"] == "2024-01-01T00:00:00.000000Z"
    assert closed["endsAt"] == "2024-01-01T00:01:00.000000Z"


class Interrupted(ManualClock):
    """Somebody types Ctrl-C when the command waits."""

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        raise KeyboardInterrupt


def test_whoever_interrupts_it_leaves_nothing_behind(file: Path, capsys: Captured) -> None:
    with Receiver(202) as receiver:
        assert kpe(file, pagerduty(receiver), "test", "pager", "--hold", "1h", clock=Interrupted()) == 130
        assert [each["event_action"] for each in bodies(receiver)] == ["trigger", "resolve"]
    assert capsys.readouterr().err.endswith("kpe: interrupted\n")


# -- what goes wrong ---------------------------------------------------------------------------------------


def test_what_the_target_answers_is_told_with_a_cure_and_nothing_is_tried_twice(
    file: Path, capsys: Captured
) -> None:
    for status, cure in ((400, "look at its key"), (401, "look at the credentials"), (429, "try later")):
        with Receiver(status) as receiver:
            assert kpe(file, pagerduty(receiver), "test", "pager") == 1
            assert len(receiver.requests) == 1
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n")) == ("", 1)
        assert told.err.startswith("kpe: incident.opened was not taken: pager: http://127.0.0.1:")
        assert f"answered {status}; " in told.err
        assert cure in told.err
        assert KEY not in told.err


def test_so_is_what_goes_wrong_with_the_end(file: Path, capsys: Captured) -> None:
    with Receiver(202, 503) as receiver:
        assert kpe(file, pagerduty(receiver), "test", "pager") == 1
    assert "incident.closed was not taken: " in capsys.readouterr().err


def test_nobody_there(file: Path, capsys: Captured) -> None:
    (port,) = free_ports(1)
    assert kpe(file, smtp(port), "test", "pager") == 1
    assert "Connection refused; is it up, and may this host reach it?" in capsys.readouterr().err


def test_an_address_that_is_not_allowed(file: Path, capsys: Captured) -> None:
    config = f'{NAMED}type = "webhook"\nurl = "http://127.0.0.1:9/"\n'
    assert kpe(file, config, "test", "pager") == 2
    assert capsys.readouterr().err.startswith("kpe: sinks.pager: url names 127.0.0.1, which is no public")


def test_a_sink_that_there_is_not(file: Path, capsys: Captured) -> None:
    assert kpe(file, smtp(25), "test", "pagr") == 2
    assert capsys.readouterr().err == "kpe: there is no sink pagr in the configuration, only pager\n"


def test_settings_of_no_use(file: Path, capsys: Captured) -> None:
    with Receiver() as receiver:
        config = pagerduty(receiver).replace(KEY, "t00short")
        assert kpe(file, config, "test", "pager") == 2
    told = capsys.readouterr().err
    assert told.startswith("kpe: sinks.pager: routing_key must have 32 letters and digits")
    assert "t00short" not in told


# -- ls ----------------------------------------------------------------------------------------------------


def test_ls_lists_them_without_secrets(file: Path, capsys: Captured) -> None:
    config = (
        '[[sinks]]\nname = "journal"\ntype = "kafka"\n'
        '[[sinks]]\nname = "chat"\ntype = "webhook"\nurl = "https://hooks.example.com/T0K3N"\n'
        'format = "teams"\n'
        '[[sinks]]\nname = "am"\ntype = "alertmanager"\nurls = ["http://am-1:9093", "http://am-2:9093"]\n'
        f'[[sinks]]\nname = "pd"\ntype = "pagerduty"\nrouting_key = "{KEY}"\n'
        + smtp(25).replace("pager", "mail")
    )
    assert kpe(file, config, "ls", "--output", "table") == 0
    assert [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "TYPE", "STREAM", "TARGET"],
        ["journal", "kafka", "events", "topic kpe.events"],
        ["chat", "webhook", "incidents", "https://hooks.example.com/*** (teams)"],
        ["am", "alertmanager", "incidents", "Alertmanager at http://am-1:9093, http://am-2:9093"],
        ["pd", "pagerduty", "incidents", "PagerDuty at https://events.pagerduty.com/v2/enqueue"],
        ["mail", "smtp", "incidents", "noc@example.com by 127.0.0.1"],
    ]
    assert kpe(file, config, "ls") == 0
    first, *_ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"name": "journal", "type": "kafka", "stream": "events", "target": "topic kpe.events"}


def test_there_may_be_none(file: Path, capsys: Captured) -> None:
    assert kpe(file, "", "ls", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == []
