"""What commands write: lines for people, whatever others have put into names, and data for programs."""

import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import kafka_partition_events.cli
from kafka_partition_events.cli.change.context import confirm
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.event_text import styled
from kafka_partition_events.cli.common.output import (
    Output,
    escape_unwritable,
    report,
    write_json,
    write_json_line,
    write_line,
    write_list,
)
from kafka_partition_events.legible import is_legible
from tests.control_kit import EVIL, SHOWN

Captured = pytest.CaptureFixture[str]
ODD, SHOWN_ODD = f"{EVIL}\ud800", rf"{SHOWN}\ud800"
CHARACTERS = '\x1b\n\t\x7f\x9b\u2028\u202e\ud800\\"'
# Of surrogates only the first half: to JSON both halves together are a character.
characters = st.characters(exclude_categories=["Cs"]) | st.sampled_from(CHARACTERS)
documents = st.dictionaries(st.text(characters), st.text(characters) | st.integers() | st.none())


def written(write: Callable[[], None]) -> str:
    """Return what reaches a strict stream of UTF-8."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="")
    with contextlib.redirect_stdout(stream):
        write()
    return raw.getvalue().decode()


def test_a_line_for_people_is_one_line_that_no_terminal_obeys(capsys: Captured) -> None:
    write_line(f"name {ODD}")
    report(f"note: {ODD}")
    told = capsys.readouterr()
    assert (told.out, told.err) == (f"name {SHOWN_ODD}\n", f"kpe: note: {SHOWN_ODD}\n")


def test_nor_is_one_with_colours_more_than_a_line() -> None:
    line = styled((ODD, "bold"), (" is gone", ""))
    assert line.plain == f"{SHOWN_ODD} is gone"
    assert [line.plain[span.start : span.end] for span in line.spans] == [SHOWN_ODD]


@given(documents)
def test_a_line_of_json_is_the_same_data_and_legible(document: dict[str, object]) -> None:
    line = written(lambda: write_json_line(document))
    assert json.loads(line) == document
    assert is_legible(line.removesuffix("\n"))


@given(documents)
def test_so_is_json_of_several_lines(document: dict[str, object]) -> None:
    text = json.dumps(document, indent=2, ensure_ascii=False)
    told = written(lambda: write_json(text))
    assert json.loads(told) == document
    assert told.count("\n") == text.count("\n") + 1


def test_names_that_are_words_in_any_language_stay_readable_in_json() -> None:
    assert written(lambda: write_json_line({"topic": "Zürich"})) == '{"topic":"Zürich"}\n'


def test_what_a_stream_can_not_write_is_escaped_as_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="iso-8859-1"))
    escape_unwritable()
    write_line("é 99\u2013100%")
    write_json_line({"topic": "\u2013\U0001f600"})
    assert raw.getvalue().split(b"\n") == [b"\xe9 99\\u2013100%", rb'{"topic":"\u2013\ud83d\ude00"}', b""]


def test_nothing_is_written_past_these() -> None:
    """Names get to a terminal by these, or by `styled`; the tables of Spark and the demo are rich's own."""
    past = re.compile(r"sys\.std(out|err)\.write|typer\.echo|(?<![.\w])print\(|\bText\(")
    files = Path(kafka_partition_events.cli.__file__).parent.rglob("*.py")
    told = {file.name for file in files if past.search(file.read_text(encoding="utf-8"))}
    assert told == {"__init__.py", "output.py"}  # the first one, before anything can be imported


Rows = list[dict[str, Any]]
ROWS: Rows = [{"topic": "orders", "reason": EVIL, "n": 1}, {"topic": "é", "reason": None, "n": 2}]


@pytest.mark.parametrize("rows", [[], ROWS[:1], ROWS], ids=len)
def test_a_list_is_an_object_a_line(rows: Rows) -> None:
    text = written(lambda: write_list(rows, Output.JSONL, lambda row: row, (), lambda _row: ()))
    assert [json.loads(line) for line in text.splitlines()] == rows
    assert all(is_legible(line) for line in text.splitlines())


def test_a_column_is_as_wide_as_what_is_widest_in_it(capsys: Captured) -> None:
    for rows in (ROWS, []):
        write_list(
            rows, Output.TABLE, lambda row: row, ("TOPIC", "N"), lambda row: (row["topic"], f"{row['n']}")
        )
    assert capsys.readouterr().out == "TOPIC   N\norders  1\né       2\n", "of nothing there is no table"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "meant"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_what_can_not_be_called_back_is_asked_on_a_terminal(
    typed: str, meant: bool, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    code = 0
    try:
        confirm("grow orders", yes=False)
    except typer.Exit as ended:
        code = ended.exit_code
    told = capsys.readouterr()
    assert (told.out, told.err.startswith("kpe: grow orders. Go on? [y/N]")) == ("", True)
    assert (code, "nothing was done" in told.err) == (0 if meant else 1, not meant)


def test_where_nobody_can_be_asked_it_takes_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(CliError, match="grow orders: no terminal to ask on; give --yes to confirm"):
        confirm("grow orders", yes=False)
    confirm("grow orders", yes=True)
