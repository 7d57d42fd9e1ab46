"""Links that leave the repository with the package: the README is its page on the index, `kpe` shows some.

There a relative link leads nowhere, so the build makes those of the README absolute; what they lead to is
looked up in this checkout.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_partition_events.links import DOCUMENTATION, REPOSITORY

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGE = json.loads(
    subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
)
PAGE = PACKAGE["readme"]["text"]
URL = re.compile(r"\]\(([^)\s]+)\)")
INSIDE = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|raw)/main/([^#]+)(?:#(.+))?")


def anchors(page: str) -> set[str]:
    """Return the anchors of a Markdown page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_page_has_a_way_in_from_another_one() -> None:
    """On GitHub, too, where nothing but links leads anywhere."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    pages += (ROOT / "docs").rglob("*.md")
    reached = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"\]\(([^)#\s:]+)", page.read_text(encoding="utf-8"))
        if (page.parent / link).resolve() != page
    }
    decisions = ROOT / "docs" / "decisions"  # CONTRIBUTING links to the directory
    assert [page for page in pages if page not in reached and page.parent != decisions] == []


def test_the_first_page_is_short() -> None:
    assert len(README.splitlines()) <= 110


def test_the_package_s_page_is_the_readme_with_as_many_links() -> None:
    assert len(URL.findall(README)) >= 20
    assert URL.sub("]()", PAGE) == URL.sub("]()", README)


def test_a_picture_of_it_is_the_file_itself_not_the_page_around_it() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", PAGE)
    assert pictures
    assert all(url.startswith(f"{REPOSITORY}/raw/") for url in pictures)


@pytest.mark.parametrize(
    "url", sorted({*URL.findall(PAGE), *PACKAGE["urls"].values()}), ids=lambda url: url[len(REPOSITORY) :]
)
def test_a_link_is_absolute_and_leads_to_something(url: str) -> None:
    if url in {REPOSITORY, f"{REPOSITORY}/issues"}:
        return
    found = INSIDE.fullmatch(url)
    assert found, "neither this repository nor an absolute link"
    path, anchor = found.groups()
    assert (ROOT / path).is_file()
    assert anchor is None or anchor in anchors((ROOT / path).read_text(encoding="utf-8"))


def test_the_documentation_is_in_the_repository() -> None:
    assert DOCUMENTATION.startswith(f"{REPOSITORY}/")
    assert (ROOT / DOCUMENTATION.rpartition("/")[2]).is_dir()
