"""`kpe observe`, as far as it gets without a cluster."""

import pytest

from kafka_partition_events.cli.app import run

Captured = pytest.CaptureFixture[str]


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
