"""Pages for files outside of ``docs`` that pages link to: on the site, such links stay on the site.

README is the first page; Markdown becomes a page as it is, everything else a block of code, a directory a
list.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from docs.generate.markdown import fenced

ROOT: Final = Path(__file__).resolve().parents[2]
_DOCS: Final = ROOT / "docs"
HOME: Final = "README.md"
ALWAYS: Final = (HOME, "CHANGELOG.md", "CONTRIBUTING.md")
_LINK: Final = re.compile(r"(\]\(|^\[[^\]\n]+\]: )([^)\s#]+)", re.MULTILINE)
_LANGUAGES: Final = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".toml": "toml", ".json": "json"}
_ENTRIES: Final = {".md", ".py"}
"""What a directory's page lists."""


def linked(pages: Mapping[str, str]) -> Mapping[str, str]:
    """Return pages for what these link to outside of ``docs``, and for what those link to, by site path."""
    waiting = [*_targets(pages), *(ROOT / name for name in ALWAYS)]
    texts: dict[str, str] = {}
    while waiting:
        place = waiting.pop()
        path = _site_path(place)
        if path in texts or path in pages:
            continue
        texts[path] = _text(place)
        waiting += _targets({path: texts[path]})
    return texts


def relinked(text: str, path: str) -> str:
    """Return a page's text with its links to files and directories led to their pages."""

    def lead(match: re.Match[str]) -> str:
        before, link = match.groups()
        if (place := _place(link, path)) is None:
            return match[0]
        return before + os.path.relpath(_site_path(place), Path(path).parent)

    return _LINK.sub(lead, text)


def _targets(pages: Mapping[str, str]) -> Iterator[Path]:
    for path, text in pages.items():
        for _, link in _LINK.findall(text):
            place = _place(link, path)
            if place is not None and (place.is_dir() or not place.is_relative_to(_DOCS)):
                yield place


def _place(link: str, path: str) -> Path | None:
    """Return what a link in a page means in the repository; None: nothing that is there."""
    place = Path(os.path.normpath(_origin(path).parent / link))
    return place if place.exists() and place.is_relative_to(ROOT) else None


def _origin(path: str) -> Path:
    """Return the file that a page of the site is made of; of a directory, something in it."""
    if path == "index.md":
        return ROOT / HOME
    if path.startswith("source/"):
        inner = path.removeprefix("source/")
        return ROOT / (inner if (ROOT / inner).exists() else inner.removesuffix(".md"))
    return _DOCS / path


def _site_path(place: Path) -> str:
    if place == ROOT / HOME:
        return "index.md"
    path = (
        place.relative_to(_DOCS) if place.is_relative_to(_DOCS) else Path("source") / place.relative_to(ROOT)
    ).as_posix()
    if place.is_dir():
        return f"{path}/index.md"
    return path if place.is_relative_to(_DOCS) or place.suffix == ".md" else f"{path}.md"


def _text(place: Path) -> str:
    if place.suffix == ".md":
        return place.read_text(encoding="utf-8")
    title = f"# `{place.relative_to(ROOT).as_posix()}`\n\n"
    if place.is_dir():
        entries = sorted(entry for entry in place.iterdir() if entry.suffix in _ENTRIES)
        return title + "".join(f"- [{_name(entry)}]({entry.name})\n" for entry in entries)
    return title + fenced(_LANGUAGES.get(place.suffix, "text"), place.read_text(encoding="utf-8"))


def _name(entry: Path) -> str:
    first = entry.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ") if entry.suffix == ".md" else entry.name
