"""`kpe tracker`, as far as it gets without a cluster."""

import pytest

from kafka_partition_events.cli.app import run

Captured = pytest.CaptureFixture[str]
NOBODY = "127.0.0.1:1"


def test_help(capsys: Captured) -> None:
    assert run(["tracker", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 " in text
    assert "\n  kpe tracker -b localhost:9092" in text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--listen", "9405"], 'kpe: --listen: "9405" is not an address such as 127.0.0.1:9404'),
        (["--config", "/nowhere/kpe.toml"], "kpe: /nowhere/kpe.toml"),
        (["-X", "no.such.option=1"], "kpe: librdkafka refuses an option"),
    ],
)
def test_an_option_that_makes_no_sense_is_told(arguments: list[str], told: str, capsys: Captured) -> None:
    assert run(["tracker", "-b", NOBODY, *arguments]) == 2
    assert capsys.readouterr().err.startswith(told)
