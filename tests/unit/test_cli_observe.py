"""`kpe observe`, as far as it gets without a cluster."""

import pytest

from kafka_partition_events.cli.app import run

Captured = pytest.CaptureFixture[str]


def test_help(capsys: Captured) -> None:
    assert run(["observe", "--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 " in text
    assert "\n  kpe observe -b localhost:9092" in text


def test_it_asks_where_the_brokers_are(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KPE_BOOTSTRAP_SERVERS", raising=False)
    assert run(["observe"]) == 2
    assert capsys.readouterr().err.startswith("kpe: no brokers are named: give -b HOST:PORT")


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--interval", "observer.interval"),
        ("--topics", "observer.topics"),
        ("--listen", "http.listen"),
    ],
)
def test_an_option_that_makes_no_sense_is_told_by_its_setting(
    option: str, key: str, capsys: Captured
) -> None:
    assert run(["observe", "-b", "x:1", option, "("]) == 2
    assert capsys.readouterr().err.startswith(f'kpe: command line: {key}: "(" is not ')
