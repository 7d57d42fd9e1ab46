"""What a soak test has found, as Markdown. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import asdict, frozen

from benchmarks.markdown import table
from tests.chaos.steady import LIMITS, Counts, Growth, Sample, cpu_share, faults, growths, losses

_HEADS: Final = {"mb": "memory, MB", "threads": "threads", "files": "open files", "sockets": "sockets"}

_MOST_SKIPPED, _LEAST_DONE = 0.1, 0.9
"""Which share of its records a writer may leave out, because it stood still or had no processor; and which
share of the faults must be carried out: one is left out where Kafka took long to recover."""


@frozen(kw_only=True)
class Found:
    """What was measured.

    Attributes:
        seconds: For how long writers were to write.
        took: How long that was, until they were told to stop.
        begun, counts: What each writer had counted when that time began, and at last.
        stopped: What each had counted when it was told to stop.
        written: How many records each partition has, by writer.
        samples: By process.
        done: The faults, as they were carried out.
        trouble: What else was not as it should be.
        busy: How much of the machine's processors everything together took.
        scrapes: How many scrapes of the observer's metrics were answered, of how many.
        pages: How many requests the observer's webhook got.
        machine: Where, when, and with which versions.
    """

    seed: int
    seconds: float
    took: float
    begun: Mapping[str, Counts]
    stopped: Mapping[str, Counts]
    counts: Mapping[str, Counts]
    written: Mapping[str, Sequence[int]]
    samples: Mapping[str, Sequence[Sample]]
    done: Sequence[str]
    trouble: Sequence[str]
    busy: float
    scrapes: tuple[int, int]
    pages: int
    machine: str

    def rate(self, name: str) -> float:
        """Return how many records a second a writer has sent."""
        begun, stopped = self.begun[name], self.stopped[name]
        return (stopped.sent - begun.sent) / (stopped.at - begun.at)

    def violations(self) -> Iterator[str]:
        """Yield what did not hold."""
        yield from self.trouble
        for name, counts in self.counts.items():
            yield from losses(name, counts, self.written[name])
            if counts.failed:  # every fault is over long before the time-out of a delivery
                yield f"{name}: {sum(counts.failed.values()):,} records failed"
            if counts.skipped > _MOST_SKIPPED * counts.sent:
                yield f"{name}: {counts.skipped:,} records were skipped beside {counts.sent:,} that were sent"
        if len(self.done) < _LEAST_DONE * (planned := len(faults(self.seed, self.seconds))):
            yield f"{len(self.done)} of {planned} faults were carried out"
        for name, samples in self.samples.items():
            for figure, growth in growths(samples).items():
                if not growth.is_flat:
                    yield (
                        f"{name}: {_HEADS[figure]} grew from {growth.before:.1f} to {growth.after:.1f}; "
                        f"{growth.allowed:.1f} more are allowed"
                    )


def markdown(found: Found) -> str:
    """Return the report."""
    violations = list(found.violations())
    acked = sum(sum(counts.acked) for counts in found.counts.values())
    total = sum(map(found.rate, found.counts))
    planned, counted = len(faults(found.seed, found.seconds)), Counter(done.split()[0] for done in found.done)
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(counted.items()))
    head = (
        f"{found.took:,.0f} s, seed {found.seed}; {total:,.0f} records/s, {acked:,} acknowledged; "
        f"{len(found.done)} of {planned} faults: {kinds}; "
        f"processors busy: {found.busy:.0%}; scrapes answered: {found.scrapes[0]} of {found.scrapes[1]}; "
        f"pages sent by the observer: {found.pages}. {found.machine}"
    )
    lines = [
        head,
        "",
        _processes(found),
        "",
        "Means of the second sixth of the time and of the last one, with a sample each 10 s.",
        "",
        _records(found),
        "",
        "\n".join(f"- **VIOLATED**: {each}" for each in violations) or "Flat and complete.",
    ]
    return "\n".join(lines) + "\n"


def _processes(found: Found) -> str:
    rows = [
        [name, *(_cell(grown) for grown in growths(samples).values()), f"{cpu_share(samples):.0%}"]
        for name, samples in found.samples.items()
    ]
    return table(["process", *(_HEADS[figure] for figure in LIMITS), "of one processor"], rows)


def _cell(grown: Growth) -> str:
    text = f"{grown.before:.1f} → {grown.after:.1f} ({grown.more:+.1f}, {grown.share:+.0%})"
    return text if grown.is_flat else f"**{text}**"


def _records(found: Found) -> str:
    rows = []
    for name, counts in found.counts.items():
        failed = ", ".join(f"{count:,} {error}" for error, count in counts.failed.items())
        numbers = (
            counts.sent,
            sum(counts.acked),
            sum(found.written[name]),
            counts.unanswered,
            counts.skipped,
        )
        rows.append([name, f"{found.rate(name):,.0f}", *(f"{each:,}" for each in numbers), failed or "0"])
    heads = ["records/s", "sent", "acknowledged", "in the topic", "without an outcome", "skipped", "failed"]
    return table(["writer", *heads], rows)


def as_json(found: Found) -> dict[str, Any]:
    """Return all of it, samples included."""
    grown = {name: growths(samples) for name, samples in found.samples.items()}
    return {
        **asdict(found),
        "growths": {name: {f: asdict(g) for f, g in each.items()} for name, each in grown.items()},
        "rates": {name: found.rate(name) for name in found.counts},
        "violations": list(found.violations()),
    }
