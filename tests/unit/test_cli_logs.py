"""`[log]`: levels, one JSON object a line, and no secret in any."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.cli.common.logs import configure_logs, in_json
from kafka_partition_events.cli.common.output import report
from kafka_partition_events.log import AUDIT, get_logger
from kafka_partition_events.observe.settings import Log

Captured = pytest.CaptureFixture[str]
LOG = get_logger("kafka_partition_events.test")


@pytest.fixture(autouse=True)
def hooks_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON takes in what others write; what it does to the process is looked at in one of its own."""
    monkeypatch.setattr("kafka_partition_events.cli.common.logs._take_in_the_rest", lambda: None)


def lines(captured: Captured) -> list[dict[str, Any]]:
    return [json.loads(line) for line in captured.readouterr().err.splitlines()]


def say_all() -> None:
    for level in ("debug", "info", "warning", "error", "critical"):
        getattr(LOG, level)(level)


@pytest.mark.parametrize(
    ("level", "verbose", "said"),
    [("debug", False, 5), ("info", False, 4), ("warning", False, 3), ("error", False, 2), ("error", True, 5)],
)
def test_a_level_holds_and_verbose_wins(level: Any, verbose: bool, said: int, capsys: Captured) -> None:
    configure_logs(verbose=verbose, log=evolve(Log(format="json"), level=level))
    say_all()
    assert len(lines(capsys)) == said


def test_by_default_there_is_text_of_warnings_and_worse(capsys: Captured) -> None:
    configure_logs(verbose=False)
    say_all()
    told = capsys.readouterr().err.splitlines()
    said = [line.partition(" level=")[2] for line in told]
    assert said == [f"'{level}' event='{level}'" for level in ("warning", "error", "critical")]
    assert not in_json()


def test_audit_lines_are_written_at_any_level(capsys: Captured) -> None:
    configure_logs(verbose=False, log=Log(level="error"))
    get_logger(AUDIT).info("silence.added", silence="1f0c2a9e")
    assert "silence='1f0c2a9e'" in capsys.readouterr().err


def test_a_line_is_one_object(capsys: Captured) -> None:
    configure_logs(verbose=False, log=Log(format="json"))
    LOG.warning("delivery_failed", sink="pager", failures=2, of=frozenset({1}), text="a\nb “quoted”")
    report("stopped")
    report("it is taken", error=True)
    line, *told = lines(capsys)
    moment = line.pop("timestamp")
    assert moment.endswith("Z")
    facts = {"sink": "pager", "failures": 2, "of": "frozenset({1})", "text": "a\nb “quoted”"}
    logger = "kafka_partition_events.test"
    assert line == {"level": "warning", "event": "delivery_failed", "logger": logger, **facts}
    said = [(each["level"], each["event"], each["message"]) for each in told]
    assert said == [("info", "reported", "stopped"), ("error", "reported", "it is taken")]


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_stands_in_a_line(form: Any, capsys: Captured) -> None:
    secrets = {"hunter2", 'pass"word\\', "whsec_s3cret", "abc"}
    configure_logs(verbose=False, log=evolve(Log(), format=form), secrets=secrets)
    for secret in secrets - {"abc"}:
        event = f"refused {secret}"
        LOG.error(event, error=f"login failed: {secret}", of={"nested": [secret]})
    LOG.error("abc")
    told = capsys.readouterr().err
    assert not [secret for secret in ("hunter2", "word", "s3cret") if secret in told]
    assert told.count("***") == 9
    assert "abc" in told, "what is so short stands everywhere"
    if form == "json":
        assert all(json.loads(line) for line in told.splitlines())


PROGRAM = """
import logging, sys, threading, warnings
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.observe.settings import Log
configure_logs(verbose=False, log=Log(format="json"), secrets={"hunter2"})
logging.getLogger("httpx").warning("slow: %s", "hunter2")
logging.getLogger("httpx").warning("%d of it", "some")  # a bad call
logging.getLogger("httpx").info("not so important")
logging.getLogger("kafka.conn").error("connecting failed, password hunter2")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("other").exception("broke")
warnings.warn("old", UserWarning)
thread = threading.Thread(target=lambda: [][1])
thread.start()
thread.join()
raise RuntimeError("hunter2")
"""


def test_what_others_write_is_json_too() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    told = [json.loads(line) for line in done.stderr.splitlines()]
    said = [f"{each['logger']}: {each['level']}" for each in told]
    others = ["httpx: warning", "httpx: warning", "other: error", "py.warnings: warning"]
    assert said == [*others, "kpe: critical", "kpe: critical"]
    assert "ZeroDivisionError" in told[2]["exception"]
    assert told[4]["error"].startswith("IndexError")
    assert "hunter2" not in done.stderr
    assert logging.getLogger().level == logging.WARNING
