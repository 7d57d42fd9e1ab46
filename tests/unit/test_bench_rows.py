"""What a line of a benchmark's table says, and whether it kept its target."""

import pytest

from benchmarks.measure import Spread
from benchmarks.rows import HEADER, Row, Target

FAST = Spread(1.0, 2.0, 4.0)


class TestARow:
    def test_says_what_it_is_compared_to(self) -> None:
        row = Row(
            what="x", unit="s", ours=FAST, peer=("y", Spread(2, 2, 2)), ratio=Spread(0.5, 1, 2), digits=1
        )
        cells = row.cells()
        assert cells == ("x", "2.0 (1.0 - 4.0) s", "y: 2.0", "1.00 (0.50 - 2.00)", "-")
        assert len(cells) == len(HEADER)

    @pytest.mark.parametrize(
        ("target", "kept", "text"),
        [
            (Target(least=2), True, ">= 2: yes"),
            (Target(least=2.5), False, ">= 2.5: **no**"),
            (Target(most=2), True, "<= 2: yes"),
            (Target(most=1), False, "<= 1: **no**"),
        ],
    )
    def test_is_judged_by_its_median(self, target: Target, kept: bool, text: str) -> None:
        row = Row(what="x", unit="s", ours=FAST, target=target)
        assert (row.kept, row.cells()[-1], row.raw()["kept"]) == (kept, text, kept)

    def test_is_judged_by_its_ratio_where_that_is_the_target(self) -> None:
        row = Row(what="x", unit="s", ours=FAST, target=Target(least=0.95), judged=Spread(0.9, 0.96, 1))
        assert row.kept
