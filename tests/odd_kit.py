"""Files, records and headers as nobody should write them: real ones with something else in some places."""

import random
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Final

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[^\s,:=\[\]{}"]+')
_DEEP: Final = 5_000
_MOST_PLACES: Final = 400
_FARTHEST: Final = 4_000

ODD: Final[tuple[bytes, ...]] = (
    b"null", b"true", b"false", b"-1", b"0", b"1.5", b"2147483648", b"9" * 5_000, b"1e400", b"-1e400",
    b"1e300", b"NaN", b"-Infinity", b"nan", b"inf", b"0x7f", b"[]", b"{}", b"[[]]", b"[null]",
    b'{"":null}', b'[1,"a",null]', b'""', b'" "', b'"\\ud800"', b'"\\u0000"', b'"\\u001b[2J"',
    b'"\\u202e"', b'"a\\nb"', b'"\\u2028"', b"'a'", b'"' + b"x" * 20_000 + b'"',
    b'"' + b"9" * 5_000 + b'"', b'"\xed\xa0\x80"', b'"\xc2\x85"', b"\xff", b"\0", b'"0-999999999"',
    b'"0-999999"', b'"' + b"0-999999," * 200 + b'1"', b'"0-2,"', b'"5-4"', b'"\xc2\xb2"',
    b'"0001-01-01T00:00:00+14:00"', b'"9999-12-31T23:59:59-14:00"', b'"2026-13-01T00:00:00Z"',
    b'"2026-11-20"', b'"2026-11-20T10:00:00"', b"2026-11-20T10:00:00Z", b'"+292278994-08-17T07:12:55Z"',
    b'"a{4294967296}"', b'"' + b"(" * _DEEP + b'"', b'"' + b"*a" * 2_000 + b'"', b'"1e400d"',
    b'"999999999999d"', b"[" * _DEEP, b"[" * _DEEP + b"]" * _DEEP, b'{"a":' * _DEEP,
    *(b"[" * n + b"]" * n for n in (300, 900)), b'{"a":' * 400 + b"1" + b"}" * 400, b"[[sinks]]\n",
    b"[" + b"{}," * 2_000 + b"{}]",
)  # fmt: skip
"""What may stand in a place where something else belongs, as JSON and TOML write it, and as neither does."""


def mutated(dice: random.Random, sample: bytes) -> bytes:
    """Return a real document of which one to three places are something else, twice there, or gone."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        sample = dice.choice(_WAYS)(dice, sample)
    return sample


@lru_cache(maxsize=256)
def _tokens(sample: bytes) -> tuple[tuple[int, int], ...]:
    """Return where values and names begin and end, and the brackets of lists and objects."""
    return tuple(each.span() for each in islice(_TOKEN.finditer(sample), _MOST_PLACES))


def _place(dice: random.Random, sample: bytes) -> tuple[int, int]:
    """Return where a value or a name, a whole list or a whole object begins and ends."""
    begin, end = dice.choice(_tokens(sample) or ((0, len(sample)),))
    if (opened := sample[begin:end]) not in {b"[", b"{"}:
        return begin, end
    closed, depth = (b"]" if opened == b"[" else b"}")[0], 0
    for place in range(begin, min(len(sample), begin + _FARTHEST)):
        depth += (sample[place] == opened[0]) - (sample[place] == closed)
        if depth == 0:
            return begin, place + 1
    return begin, end


def replaced(dice: random.Random, sample: bytes) -> bytes:
    """Let one place say what belongs nowhere; all others stay as they are."""
    begin, end = _place(dice, sample)
    return sample[:begin] + dice.choice(ODD) + sample[end:]


def _exchanged(dice: random.Random, sample: bytes) -> bytes:
    """Let one place say what another one does: a type, a name or a nesting that belongs elsewhere."""
    begin, end = _place(dice, sample)
    other, its_end = _place(dice, sample)
    return sample[:begin] + sample[other:its_end] + sample[end:]


def _gone(dice: random.Random, sample: bytes) -> bytes:
    """Leave out a name or a value with what parts it from the next one."""
    begin, end = _place(dice, sample)
    rest = re.match(rb'\s*[:=]\s*("(?:[^"\\]|\\.)*"|[^\s,\]}"]+)\s*,?|\s*,?', sample[end:])
    return sample[:begin] + sample[end + (rest.end() if rest else 0) :]


def _added(dice: random.Random, sample: bytes) -> bytes:
    """Add something behind a place: a double of it maybe, so that a key is there twice."""
    begin, end = _place(dice, sample)
    more = dice.choice((sample[begin:end], dice.choice(ODD), b'"more": ' + dice.choice(ODD)))
    return sample[:end] + dice.choice((b", ", b" ", b"\n", b": ", b" = ")) + more + sample[end:]


def _overwritten(dice: random.Random, sample: bytes) -> bytes:
    at = dice.randrange(len(sample) + 1)
    noise = bytes(dice.choices(range(256), k=dice.randint(1, 4)))
    return sample[:at] + noise + sample[at + dice.randint(0, 4) :]


def _cut(dice: random.Random, sample: bytes) -> bytes:
    return sample[: dice.randrange(len(sample) + 1)]


def _marked(dice: random.Random, sample: bytes) -> bytes:
    return dice.choice(
        (b"\xef\xbb\xbf" + sample, sample.decode("utf-8", "replace").encode("utf-16"), sample * 2)
    )


_WAYS: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (
    *[replaced] * 5, _exchanged, _gone, _gone, _added, _overwritten, _cut, _marked,
)  # fmt: skip

LARGE: Final = {
    "deep lists": b"[" * 1_000_000,
    "deep lists that end": b"[" * 500_000 + b"]" * 500_000,
    "deep objects": b'{"a":' * 200_000,
    "a long number": b"9" * 1_000_000,
    "a long text": b'"' + b"x" * 1_000_000 + b'"',
    "many empty lists": b"[" + b"[]," * 330_000 + b"[]]",
    "many names": b"{" + b",".join(b'"%d":1' % n for n in range(90_000)) + b"}",
    "many ranges": b'"' + b"0-999999," * 110_000 + b'1"',
    "no text": b"\xff" * 1_000_000,
}
"""Documents, or values within some, of a megabyte."""
