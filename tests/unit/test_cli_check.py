"""`kpe check`: Nagios' exit codes, one line, and performance data."""

import re

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import observe

Captured = pytest.CaptureFixture[str]

WELL = observe({"orders": [1, 2], "other": [2, 1]})
OFFLINE = observe({"orders": [1, None], "other": [2, None]}, brokers=[1, 2])
BEHIND = observe({"orders": [{"leader": 1, "replicas": [1, 2], "isr": [1]}]}, brokers=[1, 2])


def check(observation: Observation | Exception, *options: str) -> int:
    source = ScriptedSource(observation)
    services = Services(open_source=lambda _config: source, clock=ManualClock())
    return run(["check", "-b", "x:1", *options], services)


def test_all_is_well(capsys: Captured) -> None:
    assert check(WELL) == 0
    line = "KPE OK - 2 brokers, 2 topics, 4 partitions, 0 offline "
    line += "| offline=0;;0;0 under_replicated=0;0;;0 brokers=2;;;0\n"
    assert capsys.readouterr() == (line, "")


def test_a_partition_without_a_leader_is_critical(capsys: Captured) -> None:
    assert check(OFFLINE) == 2
    line = capsys.readouterr().out
    assert line.startswith("KPE CRITICAL - 2 partitions (orders-1, other-1) offline; 2 brokers, ")
    assert " | offline=2;;0;0 " in line


def test_a_replica_out_of_sync_is_a_warning(capsys: Captured) -> None:
    assert check(BEHIND) == 1
    assert capsys.readouterr().out.startswith("KPE WARNING - 1 partition (orders-0) under-replicated; ")


def test_the_worst_decides_and_comes_first(capsys: Captured) -> None:
    observation = observe({"orders": [{"leader": 1, "replicas": [1, 2], "isr": [1]}, None]}, brokers=[1, 2])
    assert check(observation, "--min-brokers", "3") == 2
    line = capsys.readouterr().out
    assert re.match(r"KPE CRITICAL - .* offline; only 2 brokers; .* under-replicated; ", line)
    assert line.endswith(" brokers=2;;3:;0\n")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--max-offline", "2"], 0),
        (["--max-offline", "1"], 2),
        (["--topics", "nosuch"], 3),
        (["--min-brokers", "3"], 2),
    ],
)
def test_thresholds(options: list[str], code: int) -> None:
    assert check(OFFLINE, *options) == code


def test_who_can_not_be_asked_is_unknown(capsys: Captured) -> None:
    assert check(MetadataFetchError("connection\n refused")) == 3
    assert capsys.readouterr().out == "KPE UNKNOWN - no metadata from x:1: connection refused\n"


def test_what_is_said_is_not_taken_for_performance_data(capsys: Captured) -> None:
    assert check(WELL, "--topics", "payments|nosuch") == 3
    line = capsys.readouterr().out
    assert "payments/nosuch" in line
    assert "|" not in line


def test_a_wrong_option_is_unknown_too(capsys: Captured) -> None:
    assert check(WELL, "--max-offline", "many") == 3
    assert "--max-offline" in capsys.readouterr().err
    assert check(WELL, "--nosuch") == 3
    assert run(["check"], Services()) == 3
