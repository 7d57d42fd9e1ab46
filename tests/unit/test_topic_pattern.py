"""Patterns that anybody may have written: they mean what `re` means, and none of them takes long."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_partition_events.incidents.topic_pattern import MOST_CLASSES, MOST_PARTS, TopicPattern

LONGEST = 249
"""What a topic's name may have."""


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    times = st.sampled_from(["", "", "*", "+", "?", "*?", "{2}", "{0}", "{1,3}", "{,2}", "{2,}"])
    return (
        st.lists(inner, max_size=4).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map("|".join)
        | st.tuples(st.sampled_from(["({})", "(?:{})"]), inner, times).map(lambda t: t[0].format(t[1]) + t[2])
    )


PATTERNS = st.recursive(
    st.sampled_from(
        ["a", "b", "-", ".", r"\.", r"\d", r"\w", r"\D", "[ab]", "[^a]", "[a-c1]", r"[\d-]", "a*", "b?", ""]
    ),
    joined,
    max_leaves=8,
)


@settings(max_examples=1000)
@given(PATTERNS, st.lists(st.text("abc1.-", max_size=8), min_size=1))
def test_it_means_what_re_means(text: str, names: list[str]) -> None:
    pattern = TopicPattern(text)
    for name in names:
        assert pattern.matches(name) == bool(re.fullmatch(text, name)), (text, name)


@pytest.mark.parametrize(
    ("text", "matched", "not_matched"),
    [
        ("^orders-.*$", "orders-eu", "my-orders-eu"),
        ("^a$|^b$", "b", "ab"),
        ("orders|pay(ment)?s", "payments", "ordersx"),
        (r"eu\.orders\.v\d+", "eu.orders.v12", "eu-orders.v1"),
        ("[^-]+-[^-]+", "a-b", "a-b-c"),
        ("[]a]", "]", "b"),
    ],
)
def test_what_people_write_is_understood(text: str, matched: str, not_matched: str) -> None:
    assert TopicPattern(text).matches(matched)
    assert not TopicPattern(text).matches(not_matched)


@pytest.mark.parametrize(
    "text",
    ["(a+)+b", "(a|a)*b", "(.*.*)*x", "a?" * 400 + "a" * 400, "(a|ab)(b|)" * 100 + "c", ".*" * 500 + "x"],
)
def test_no_pattern_has_more_to_do_than_there_are_letters(text: str) -> None:
    """`re` would not have answered yet when the sun goes out."""
    assert not TopicPattern(text).matches("a" * LONGEST)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "without its end"),
        (")", "where none can be"),
        ("*a", "where none can be"),
        ("a**", "where none can be"),
        ("a*+", "where none can be"),
        ("a^b", "where none can be"),
        (r"(a)\1", "can't be matched in time"),
        ("(?=a)a", "can't be matched in time"),
        ("(?i)a", "can't be matched in time"),
        ("a\\", "can't be matched in time"),
        ("[a", "can't be matched in time"),
        ("a{", "can't be matched in time"),
        ("a{3,2}", "larger than the maximum"),
        ("[z-a]", "bad character range"),
        ("a" * (MOST_PARTS + 1), "more than"),
        ("((a{99}){99}){99}", "more than"),
        ("(((){99}){99}){99}", "more than"),
        ("(" * 8000, "more than"),
        ("a{4294967296}", "can't be matched in time"),
        ("".join(f"[{chr(256 + n)}]" for n in range(MOST_CLASSES + 1)), "more than"),
    ],
)
def test_what_is_no_pattern_or_has_no_bound_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TopicPattern(text)
