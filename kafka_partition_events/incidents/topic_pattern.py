"""Regular expressions of topics' names that anybody may have written. Pure.

Python's `re` tries one way after the other: ``(a+)+b`` takes it seconds for thirty letters, three times as
long for each further one, and meanwhile no other thread of the process runs. Here all ways are followed at
once (Glushkov's automaton), so a name costs at most its length times the pattern's, whatever the pattern is.
What can't be followed so, such as references to groups and looks ahead, is refused.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MOST_PARTS: Final = 1_000
"""How many characters, classes and groups a pattern may have, each as often as it is repeated."""

MOST_CLASSES: Final = 50
MOST_DEEP: Final = 20

_REMEMBERED: Final = 1_000

_TOKENS: Final = re.compile(
    r"""
    (?P<one> \\[dDsSwW] | \\[^a-zA-Z0-9] | \[\^?\]?(?:\\.|[^\]\[\\])*\] | [^\\\[(){}*+?|^$] )
    | (?P<open> \((?: \?: | (?!\?) ) ) | (?P<close> \) ) | (?P<bar> \| ) | (?P<begin> \^ ) | (?P<end> \$ )
    | (?P<repeat> (?: [*+?] | \{\d{1,3}\} | \{\d{1,3},(?:\d{1,3})?\} | \{,\d{1,3}\} )\?? )
    """,
    re.VERBOSE | re.DOTALL,
)


class _Part(NamedTuple):
    """A part of a pattern: whether it matches nothing at all, and the places it can begin and end with."""

    empty: bool = True
    first: int = 0
    last: int = 0


class TopicPattern:
    """A compiled pattern. Not thread-safe.

    It means what `re` means by it: characters, classes, groups, ``|``, ``*``, ``+``, ``?`` and ``{m,n}``.
    """

    def __init__(self, text: str) -> None:
        """Compile it.

        Raises:
            ValueError: it is no pattern, too large, or has what can't be matched in time.
        """
        self._atoms: list[str | re.Pattern[str]] = []  # a character, or a class
        self._follow: list[int] = []  # for each place a set of places, as bits
        self._tokens, self._at, self._parts = list(_tokens_of(text)), 0, 0
        self._classes: dict[str, re.Pattern[str]] = {}
        self._whole = self._alternatives(0)
        if self._at < len(self._tokens):
            raise ValueError(f"has a {self._tokens[self._at][1]!r} where none can be")
        self._matching: dict[str, int] = {}
        self._steps: dict[int, int] = {}

    def matches(self, name: str) -> bool:
        """Tell whether it matches a whole name."""
        if not name:
            return self._whole.empty
        here = self._whole.first & self._places_of(name[0])
        for character in name[1:]:
            if not here:
                return False
            here = self._after(here) & self._places_of(character)
        return bool(here & self._whole.last)

    def _places_of(self, character: str) -> int:
        if character not in self._matching:
            classes = {each for each in self._classes.values() if each.fullmatch(character)}
            matching = (n for n, atom in enumerate(self._atoms) if atom == character or atom in classes)
            self._matching[character] = sum(1 << n for n in matching)
        return self._matching[character]

    def _after(self, places: int) -> int:
        found = self._steps.get(places)
        if found is None:
            if len(self._steps) >= _REMEMBERED:
                self._steps.clear()
            found, left = 0, places
            while left:
                found |= self._follow[(left & -left).bit_length() - 1]
                left &= left - 1
            self._steps[places] = found
        return found

    # -- compiling: each part is added at the end of what there is -------------------------------------

    def _next_is(self, *kinds: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][0] in kinds

    def _alternatives(self, depth: int) -> _Part:
        whole = self._sequence(depth)
        while self._next_is("bar"):
            self._at += 1
            other = self._sequence(depth)
            whole = _Part(whole.empty or other.empty, whole.first | other.first, whole.last | other.last)
        return whole

    def _sequence(self, depth: int) -> _Part:
        whole = _Part()
        if not depth and self._next_is("begin"):  # a pattern matches the whole name anyway
            self._at += 1
        while self._next_is("one", "open"):
            whole = self._joined(whole, self._repeated(depth))
        if not depth and self._next_is("end"):
            self._at += 1
        return whole

    def _repeated(self, depth: int) -> _Part:
        begin = self._at
        part = self._single(depth)
        if not self._next_is("repeat"):
            return part
        end = self._at + 1
        least, most = _times(self._tokens[self._at][1])
        if most == 0:
            part = _Part()
        whole = part if least or most == 0 else part._replace(empty=True)
        for number in range(1, least if most is None else most):
            self._at = begin  # the same once more
            part = self._single(depth)
            whole = self._joined(whole, part if number < least else part._replace(empty=True))
        if most is None:
            self._link(part.last, part.first)
        self._at = end
        return whole

    def _single(self, depth: int) -> _Part:
        self._parts += 1
        if self._parts > MOST_PARTS or depth > MOST_DEEP:
            raise ValueError(
                f"has more than {MOST_PARTS} characters and groups, or {MOST_DEEP} in each other"
            )
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "open":
            part = self._alternatives(depth + 1)
            if not self._next_is("close"):
                raise ValueError("has a group without its end")
            self._at += 1
            return part
        place = 1 << len(self._atoms)
        self._atoms.append(self._atom(text))
        self._follow.append(0)
        return _Part(empty=False, first=place, last=place)

    def _atom(self, text: str) -> str | re.Pattern[str]:
        if text[0] not in ".[\\":
            return text
        if text[0] == "\\" and text[1] not in "dDsSwW":
            return text[1]
        if text not in self._classes:
            if len(self._classes) >= MOST_CLASSES:
                raise ValueError(f"has more than {MOST_CLASSES} classes of characters")
            try:
                self._classes[text] = re.compile(text)
            except (re.error, FutureWarning) as error:
                raise ValueError(f"{text!r}: {error}") from error
        return self._classes[text]

    def _joined(self, one: _Part, other: _Part) -> _Part:
        self._link(one.last, other.first)
        return _Part(
            one.empty and other.empty,
            one.first | (other.first if one.empty else 0),
            other.last | (one.last if other.empty else 0),
        )

    def _link(self, places: int, to: int) -> None:
        while places:
            self._follow[(places & -places).bit_length() - 1] |= to
            places &= places - 1


def _tokens_of(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"has {text[at : at + 20]!r}, which is none, or can't be matched in time")
        yield found.lastgroup, found.group()
        at = found.end()


def _times(text: str) -> tuple[int, int | None]:
    """Return how often at least and at most; None for no limit."""
    simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    if text[0] in simple:
        return simple[text[0]]
    least, comma, most = text.rstrip("?").strip("{}").partition(",")
    fewest = int(least or 0)
    if not comma:
        return fewest, fewest
    if most and int(most) < fewest:
        raise ValueError(f"{text!r}: the minimum is larger than the maximum")
    return fewest, int(most) if most else None
