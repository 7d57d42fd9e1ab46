"""Text of somebody else: what a terminal shows of it, and that nothing else comes of it."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.legible import is_legible, legible

TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
PROGRAMMER = "\U0001f469\u200d\U0001f4bb"  # of a woman, a joiner, and a computer
texts = st.text(st.characters() | st.sampled_from("\x1b\n\t\x7f\x9b\u2028\u202e\ud800\\ "))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("order_items-1", "order_items-1"),
        ("Zürich, 注文", "Zürich, 注文"),
        (PROGRAMMER, PROGRAMMER),
        ("C:\\new\\x1b", "C:\\new\\x1b"),
        ("\x1b[2Jevil", r"\x1b[2Jevil"),
        ("one\ntwo\r\n\tthree", r"one\ntwo\r\n\tthree"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("one\u2028two\u2029three", r"one\u2028two\u2029three"),
        ("invoice-\u202egpj.exe", r"invoice-\u202egpj.exe"),
        ("\ud800", r"\ud800"),
    ],
)
def test_a_terminal_shows_it_and_does_not_obey_it(text: str, shown: str) -> None:
    assert legible(text) == shown
    assert is_legible(text) == (shown == text)


def test_of_all_unicode_only_controls_ends_of_lines_turns_and_half_characters_are_not_legible() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    odd = {char for char in every if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}}
    assert {char for char in every if not is_legible(char)} == odd | {*TURNING}


@given(texts)
def test_it_is_one_line_that_any_stream_takes(text: str) -> None:
    shown = legible(text)
    assert is_legible(shown)
    assert len(shown.splitlines()) <= 1
    assert shown.encode().decode() == shown


@given(texts)
def test_what_is_legible_stays_as_it_is(text: str) -> None:
    shown = legible(text)
    assert legible(shown) == shown
    assert is_legible(text) == (shown == text)


@given(texts, st.integers(min_value=1, max_value=20))
def test_it_is_cut_to_the_length_that_is_asked_for(text: str, most: int) -> None:
    whole, shown = legible(text), legible(text, most)
    assert shown == (whole if len(whole) <= most else f"{whole[: most - 1]}…")
    assert len(shown) <= most
    assert is_legible(shown)
