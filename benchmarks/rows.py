"""What a measurement comes to, as a line of the table. Pure."""

from attrs import asdict, field, frozen

from benchmarks.markdown import reached_text, spread_text
from benchmarks.measure import Spread


@frozen(kw_only=True)
class Target:
    """A promise: the median must be at least, or at most, so much."""

    least: float | None = None
    most: float | None = None

    def kept(self, spread: Spread) -> bool:
        above = self.least is None or spread.median >= self.least
        return above and (self.most is None or spread.median <= self.most)

    @property
    def text(self) -> str:
        return f">= {self.least:,g}" if self.least is not None else f"<= {self.most:,g}"


@frozen(kw_only=True)
class Row:
    """One measurement.

    Attributes:
        what: What was measured.
        unit: Its unit.
        ours: What it came to.
        peer: What it is compared to, and what that came to; None if there is nothing.
        ratio: Ours by the peer's, of each pair of runs.
        target: What `judged` must reach.
        judged: What the target is about; `ours` if None.
        digits: Digits after the point.
        extra: Other numbers, for machines.
    """

    what: str
    unit: str
    ours: Spread
    peer: tuple[str, Spread] | None = None
    ratio: Spread | None = None
    target: Target | None = None
    judged: Spread | None = None
    digits: int = 0
    extra: dict[str, object] = field(factory=dict)

    @property
    def kept(self) -> bool | None:
        """Whether the target was reached; None without one."""
        return None if self.target is None else self.target.kept(self.judged or self.ours)

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        write = f"{{:,.{self.digits}f}}".format
        peer = "-"
        if self.peer is not None:
            peer = f"{self.peer[0]}: {spread_text(self.peer[1], write)}"
        verdict = reached_text(self.kept)
        if self.target is not None:
            verdict = f"{self.target.text}: {verdict}"
        return (
            self.what,
            f"{spread_text(self.ours, write)} {self.unit}",
            peer,
            "-" if self.ratio is None else spread_text(self.ratio, "{:,.2f}".format),
            verdict,
        )

    def raw(self) -> dict[str, object]:
        """Return everything, for machines."""
        return {**asdict(self), "kept": self.kept}


HEADER = ("what", "ours", "peer", "ours by peer's", "target")
