"""Links that leave the repository with the package: the README is its page on the index, `kpe` shows some.

There a relative link leads nowhere, so they are absolute; what they lead to is looked up in this checkout.
"""

import re
import tomllib
from pathlib import Path

import pytest

from kafka_partition_events.links import DOCUMENTATION, REPOSITORY

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INLINE = re.findall(r"\]\(([^)\s]+)\)", README)
DEFINED = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", README, re.MULTILINE))
PROSE = re.sub(r"```.*?```|`[^`]*`", "", README, flags=re.DOTALL)
USED = {
    (label or text).lower() for text, label in re.findall(r"\[([^\[\]]+)\](?:\[([^\]]+)\])?(?![(:])", PROSE)
}
RELATIVE = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|raw)/main/([^#]+)(?:#(.+))?")


def anchors(page: str) -> set[str]:
    """Return the anchors of a Markdown page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_reference_of_the_readme_is_defined_and_each_definition_used() -> None:
    assert DEFINED.keys() == USED


@pytest.mark.parametrize(
    "url",
    sorted({*INLINE, *DEFINED.values(), *PROJECT["urls"].values()}),
    ids=lambda url: url[len(REPOSITORY) :],
)
def test_a_link_is_absolute_and_leads_to_something(url: str) -> None:
    if url in {REPOSITORY, f"{REPOSITORY}/issues"}:
        return
    found = RELATIVE.fullmatch(url)
    assert found, "neither this repository nor an absolute link"
    path, anchor = found.groups()
    assert (ROOT / path).is_file()
    assert anchor is None or anchor in anchors((ROOT / path).read_text(encoding="utf-8"))


def test_the_documentation_is_in_the_repository() -> None:
    assert DOCUMENTATION.startswith(f"{REPOSITORY}/")
    assert (ROOT / DOCUMENTATION.rpartition("/")[2]).is_dir()
