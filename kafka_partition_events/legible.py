"""Text from elsewhere, as one line that a terminal shows as it is. Pure."""

import re
from typing import Final

ILLEGIBLE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""A character that ends a line, moves the cursor, turns text around or is none: controls, separators of lines
and of paragraphs, marks of direction, and lone surrogates, which no stream takes."""


def legible(text: str, most: int | None = None) -> str:
    r"""Return text as one line that a terminal shows and does not obey; what is legible stays as it is.

    Args:
        text: Any text. What `ILLEGIBLE` finds in it is written as Python does: ``\x1b``, ``\u202e``.
        most: How many characters to return at the most, at least one; where some are cut off stands "…".
    """
    if most is not None:
        text = text[: most + 1]  # nothing becomes shorter by being escaped
    if not is_legible(text):
        text = ILLEGIBLE.sub(_escaped, text)
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def is_legible(text: str) -> bool:
    """Return whether `legible` would return the whole of a text as it is."""
    return text.isprintable() or ILLEGIBLE.search(text) is None


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
