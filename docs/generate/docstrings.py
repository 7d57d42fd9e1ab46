"""Our docstrings as Markdown: names of the public API become links, and ``::`` before code a colon."""

import re
from typing import Any

import griffe

from docs.generate.api import public

_NAME = re.compile(r"(?<![`\[])`([A-Za-z_]+)`(?![`\]])")
_LITERAL = re.compile(r"::(?=\n\n +)")


class Links(griffe.Extension):  # type: ignore[misc]  # mypy does not see griffe, which only the site needs
    """Rewrites each docstring as it is loaded."""

    def __init__(self) -> None:
        self._places = public()

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Link the names in an object's docstring, but for its own."""
        if obj.docstring is not None:
            own = obj.name
            text = _NAME.sub(lambda found: self._link(found, own), obj.docstring.value)
            obj.docstring.value = _LITERAL.sub(":", text)

    def _link(self, found: re.Match[str], own: str) -> str:
        place = self._places.get(found[1])
        return found[0] if place is None or found[1] == own else f"[{found[0]}][{place}]"
