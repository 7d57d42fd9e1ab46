"""Interleaved measurements: what takes turns, what is left out, what is repeated."""

from collections.abc import Callable, Iterator

import pytest

from benchmarks import measure
from benchmarks.measure import interleaved

DISTURBED = 1e6
"""Stolen seconds, more than any run takes."""


@pytest.fixture
def stolen(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[bool]], None]:
    """Return what says of each pair whether it is disturbed."""

    def script(pairs: list[bool]) -> None:
        def readings() -> Iterator[float]:
            for disturbed in pairs:
                yield from (0.0, DISTURBED if disturbed else 0.0)

        monkeypatch.setattr(measure, "stolen", readings().__next__)

    return script


class Costs:
    """Notes who was run when."""

    def __init__(self) -> None:
        self.ran = ""

    def a(self) -> float:
        self.ran += "a"
        return 2.0

    def b(self) -> float:
        self.ran += "b"
        return 1.0


def test_takes_turns_after_a_warm_up(stolen: Callable[[list[bool]], None]) -> None:
    stolen([False, False])
    costs = Costs()
    pair = interleaved(costs.a, costs.b, 2)
    assert costs.ran == "ab" + "ba" + "ab"
    assert (pair.a.median, pair.b.median, pair.ratio.median, pair.discarded) == (2.0, 1.0, 0.5, 0)


@pytest.mark.parametrize(
    ("disturbed", "more_tries", "runs", "discarded"),
    [
        ([True, False, False], 0, 3, 1),
        ([True, False, False, False], 2, 4, 1),
        ([False, True, False, True, False], 2, 5, 2),
        ([False, False, False], 2, 3, 0),
    ],
)
def test_repeats_what_was_disturbed_if_it_may(
    stolen: Callable[[list[bool]], None], disturbed: list[bool], more_tries: int, runs: int, discarded: int
) -> None:
    stolen(disturbed)
    costs = Costs()
    pair = interleaved(costs.a, costs.b, 3, warm_up=False, more_tries=more_tries)
    assert (len(costs.ran), pair.discarded) == (2 * runs, discarded)


def test_says_so_if_all_was_disturbed(stolen: Callable[[list[bool]], None]) -> None:
    stolen([True, True])
    with pytest.raises(SystemExit, match="disturbed"):
        interleaved(Costs().a, Costs().b, 1, warm_up=False, more_tries=1)
