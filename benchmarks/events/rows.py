"""What a measurement comes to, as a line of the table. Pure."""

from attrs import asdict, field, frozen

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
        peer = "-"
        if self.peer is not None:
            peer = f"{self.peer[0]}: {spread_text(self.peer[1], self.digits)}"
        verdict = {None: "-", True: "yes", False: "**no**"}[self.kept]
        if self.target is not None:
            verdict = f"{self.target.text}: {verdict}"
        return (
            self.what,
            f"{spread_text(self.ours, self.digits)} {self.unit}",
            peer,
            "-" if self.ratio is None else spread_text(self.ratio, 2),
            verdict,
        )

    def raw(self) -> dict[str, object]:
        """Return everything, for machines."""
        return {**asdict(self), "kept": self.kept}


HEADER = ("what", "ours", "peer", "ours by peer's", "target")


def inverse(spread: Spread) -> Spread:
    """Return the spread of the values' inverses: rates, of seconds an event."""
    return Spread(1 / spread.high, 1 / spread.median, 1 / spread.low)


def spread_text(spread: Spread, digits: int) -> str:
    low, median, high = (f"{value:,.{digits}f}" for value in (spread.low, spread.median, spread.high))
    return median if low == high else f"{median} ({low} - {high})"
