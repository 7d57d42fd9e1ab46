"""What campaigns publish is what their results say, to the letter: each page is an example of its report.

What no published result shows is tried in the files of each campaign.
"""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.command import Book
from benchmarks.convergence.__main__ import _BOOK as CONVERGENCE
from benchmarks.faults.__main__ import _BOOK as FAULTS
from benchmarks.gate.__main__ import _BOOK as GATE
from benchmarks.kip480.__main__ import _BOOK as KIP480

DOCS = Path(__file__).resolve().parents[2] / "docs"

BOOKS = [CONVERGENCE, FAULTS, GATE, KIP480]

pytestmark = pytest.mark.parametrize("book", BOOKS, ids=lambda book: str(book.name))


def test_pages_say_what_the_results_say(book: Book[Any]) -> None:
    found = book.load()
    page = (DOCS / book.page).read_text(encoding="utf-8")
    assert book.render(page, found, "img") == page
    for other, render in book.also.items():
        text = other.read_text(encoding="utf-8")
        assert render(text, found) == text


def test_pictures_show_what_the_results_say(book: Book[Any]) -> None:
    drawn = {name: picture for name, picture in book.draw(book.load()).items() if picture is not None}
    assert drawn == {name: (DOCS / "img" / name).read_text(encoding="utf-8") for name in drawn}


def test_only_its_own_part_of_a_page_is_replaced(book: Book[Any]) -> None:
    text = book.render(f"before\n{book.new_page}after\n", book.load(), "img")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    with pytest.raises(ValueError, match="no section between"):
        book.render("# Mine\n", book.load(), "img")
