"""`kpe tracker`, as far as it gets without a cluster."""

from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.change import tracker
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.settings import ControlTopics
from kafka_partition_events.observe.settings import PolicySettings

Captured = pytest.CaptureFixture[str]
NOBODY = "127.0.0.1:1"
ELSEWHERE = "--control-bootstrap", NOBODY


def test_help(capsys: Captured) -> None:
    assert run(["tracker", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 " in text
    assert "\n  kpe tracker -b localhost:9092" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--listen", "9405"], "kpe: --listen: '9405' is not an address such as 127.0.0.1:9404"),
        (["--interval", "soon"], "kpe: 'soon' is not a duration"),
        (
            ["--control-option", "a=b"],
            "kpe: --control-option is for the cluster of --control-bootstrap; write -X",
        ),
        (["--may-grow", "shop["], 'kpe: command line: policy.may_grow: "shop[" is not a regular expression'),
        (["--config", "/nowhere/kpe.toml"], "kpe: /nowhere/kpe.toml"),
        (["-X", "no.such.option=1"], "kpe: librdkafka refuses an option"),
        (
            ["--control-bootstrap", NOBODY, "--control-option", "no.such.option=1"],
            "kpe: librdkafka refuses an option",
        ),
    ],
)
def test_an_option_that_makes_no_sense_is_told(arguments: list[str], told: str, capsys: Captured) -> None:
    assert run(["tracker", "-b", NOBODY, *arguments]) == 2
    assert capsys.readouterr().err.startswith(told)


def test_its_policy_may_stand_in_the_configuration_and_options_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    file = tmp_path / "kpe.toml"
    file.write_text(
        f'[kafka]\nbootstrap_servers = "{NOBODY}"\n[control]\nbootstrap_servers = "audit:1"\n'
        '[policy]\nmay_grow = "shop[.].*"\nmax_partitions = 200\nmax_factor = 4\n'
    )
    given: list[object] = []

    def service(*arguments: object) -> None:
        given.extend(arguments)
        raise CliError("as far as it gets")

    monkeypatch.setattr(tracker, "_Service", service)
    monkeypatch.setattr(tracker, "_check_topics", lambda *_: None)
    assert run(["tracker", "--config", str(file), "--max-partitions", "50"]) == 2
    found = given[0]
    assert isinstance(found, ControlTopics)
    assert (found.config, found.control) == ({"bootstrap.servers": NOBODY}, {"bootstrap.servers": "audit:1"})
    assert found.settings.policy == PolicySettings(may_grow="shop[.].*", max_partitions=50, max_factor=4.0)
    assert "as far as it gets" in capsys.readouterr().err
