"""Pieces of Markdown. Pure."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; what stands in its cells may span lines and hold pipes."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def code(value: object) -> str:
    """Return something as code in a line."""
    return f"`{value}`"


def fenced(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def prose(docstring: str) -> str:
    """Return a docstring's text with Markdown's marks for code, which has one backtick for both."""
    return docstring.replace("``", "`").strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
