"""Finds the blocks of code in the documentation, and what pages say about running them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
HISTORY: Final = "decisions"
"""Pages that say what was thought at the time. Their code is not held to be true now."""

ELSEWHERE: Final = {
    "spark-partition-column.md": "tests/integration/spark/test_partition_column_kafka.py does it, with Spark"
}
"""Pages whose Python is run elsewhere as a whole."""

_FENCE: Final = re.compile(
    r"^(?:<!-- not run: (?P<because>[^\n]+) -->\n)?"
    r"```(?P<language>[a-z]*)\n(?P<code>.*?)^```$"
    r"(?:\n\n```text\n(?P<shown>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_INLINE: Final = re.compile(r"`(kpe\s[^`]+)`")


@frozen
class Block:
    """A block of code.

    Attributes:
        page: Its page, relative to ``docs``.
        line: The line of the page that it begins on.
        language: As the page says; empty if it does not.
        code: What is in it.
        because: What a comment before it says of why it is not run, if there is one.
        shown: What the page says that it prints; None: it says nothing.
    """

    page: str
    line: int
    language: str
    code: str
    because: str | None
    shown: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def why_not(self) -> str | None:
        """Why it is not run; None: it is."""
        return self.because or ELSEWHERE.get(self.page)

    @property
    def needs_kafka(self) -> bool:
        """Whether it takes brokers."""
        return "localhost:9092" in self.code or "KafkaCluster(" in self.code

    @property
    def is_endless(self) -> bool:
        """Whether it reads until it is stopped."""
        return "while True:" in self.code or "in consumer:" in self.code


def pages() -> Iterator[Path]:
    """Return all pages but those of history."""
    return (page for page in sorted(DOCS.rglob("*.md")) if HISTORY not in page.parts)


def blocks(*languages: str) -> list[Block]:
    """Return the blocks of these languages; of all, if none is named."""
    texts = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in pages()}
    found = [block for where, text in texts.items() for block in blocks_of(where, text)]
    return [block for block in found if block.language in languages or not languages]


def inline_commands() -> list[tuple[str, str]]:
    """Return each ``kpe ...`` within a sentence, with its page."""
    return [
        (page.name, " ".join(command.split()))
        for page in pages()
        for command in _INLINE.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
    ]


def blocks_of(where: str, text: str) -> Iterator[Block]:
    """Return the blocks of one page."""
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        yield Block(where, line, found["language"], found["code"], found["because"], found["shown"])
