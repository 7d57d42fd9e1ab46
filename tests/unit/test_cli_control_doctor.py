"""`kpe doctor control`: what everybody passes over in the control topics, with its place and the reason."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import define, field

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.control.protocol.codec import Oddity, Skipped
from kafka_partition_events.errors import ControlTopicError
from tests.control_kit import EVIL, SHOWN
from tests.login_kit import login_options

Captured = pytest.CaptureFixture[str]

LEASE = Oddity("kpe.leases", 11, 1742, "not JSON: Expecting value")
COMMAND = Oddity("kpe.commands", 0, 3, "version 2 of kpe.command is not known here, only 1")


@define
class FakeLog:
    """Control topics with records that are odd, by the count that they belong to.

    Attributes:
        older: How many malformed ones came before those.
        trouble: Why the topics can't be read.
    """

    odd: Mapping[str, list[Oddity]] = field(factory=dict)
    older: int = 0
    trouble: str | None = None
    skipped: Skipped = field(factory=Skipped)
    opened: tuple[Mapping[str, str], str] | None = None
    closed: bool = False

    def read(self, timeout: float) -> None:
        self._pass_over("malformed")
        if self.older:
            self.skipped.counts["malformed"] += self.older

    def read_commands(self, timeout: float) -> None:
        if self.trouble is not None:
            raise ControlTopicError(self.trouble)
        self._pass_over("version")

    def close(self) -> None:
        self.closed = True

    def _pass_over(self, reason: str) -> None:
        for odd in self.odd.get(reason, ()):
            self.skipped.counts[reason] += 1
            self.skipped.latest.append(odd)

    def doctor(self, *options: str) -> int:
        def opened(config: Mapping[str, str], prefix: str) -> "FakeLog":
            self.opened = config, prefix
            return self

        return run(["doctor", "control", "-b", "x:1", *options], Services(open_log=opened))


def told(capsys: Captured) -> dict[str, Any]:
    (document,) = map(json.loads, capsys.readouterr().out.splitlines())
    return dict(document)


def test_all_topics_are_read_and_what_is_skipped_is_told(capsys: Captured) -> None:
    log = FakeLog(odd={"malformed": [LEASE], "version": [COMMAND]})
    assert log.doctor("--prefix", "staging.") == 1
    assert told(capsys) == {
        "kind": "control_diagnosis",
        "prefix": "staging.",
        "skipped": {"malformed": 1, "version": 1},
        "latest": [
            {"topic": "kpe.commands", "partition": 0, "offset": 3, "reason": COMMAND.reason},
            {"topic": "kpe.leases", "partition": 11, "offset": 1742, "reason": LEASE.reason},
        ],
    }
    assert (log.opened, log.closed) == (({"bootstrap.servers": "x:1"}, "staging."), True)


def test_none_is_skipped(capsys: Captured) -> None:
    assert FakeLog().doctor() == 0
    assert told(capsys) == {
        "kind": "control_diagnosis",
        "prefix": "kpe.",
        "skipped": {"malformed": 0, "version": 0},
        "latest": [],
    }
    assert FakeLog().doctor("--output", "table") == 0
    assert capsys.readouterr().out == "no record is skipped\n"


def test_a_table_tells_the_cure_too(capsys: Captured) -> None:
    log = FakeLog(odd={"malformed": [LEASE], "version": [COMMAND]}, older=1_233)
    assert log.doctor("--output", "table") == 1
    *table, malformed, version = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in table] == [
        "partition offset reason",
        f"kpe.commands-0 3 {COMMAND.reason}",
        f"kpe.leases-11 1742 {LEASE.reason}",
        "and 1,233 before these",
    ]
    assert malformed.startswith("1,234 records skipped, malformed: no version of this library writes such; ")
    assert version.startswith("1 record skipped, version: a later version of this library has written them; ")


def test_a_reason_that_is_made_for_a_terminal_is_shown_and_not_obeyed(capsys: Captured) -> None:
    log = FakeLog(odd={"malformed": [Oddity("kpe.acks", 2, 7, EVIL)]})
    assert log.doctor("--output", "table") == 1
    _, line, _ = capsys.readouterr().out.splitlines()
    assert line.endswith(SHOWN)


def test_topics_that_can_not_be_read_are_an_error_that_tells_no_secret(capsys: Captured) -> None:
    log = FakeLog(trouble="there is no topic kpe.commands for\n hunter2; `kpe topics init` creates them")
    assert log.doctor(*login_options({"sasl.password": "hunter2"})) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "kpe: there is no topic kpe.commands for ***; `kpe topics init` creates them\n")
    assert log.closed


def test_help_has_examples_and_exit_codes(capsys: Captured) -> None:
    assert run(["doctor", "control", "--help"]) == 0
    text = capsys.readouterr().out
    assert "\n  kpe doctor control -b localhost:9092" in text
    assert "Exit codes: 0 none is skipped; 1 some are" in text
    assert run(["doctor", "--help"]) == 0
    assert "kpe doctor control -b" in capsys.readouterr().out
