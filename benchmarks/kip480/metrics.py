"""Numbers from tapes. Pure: what was seen goes in, figures come out."""

from collections.abc import Sequence

from attrs import frozen

from benchmarks.faults.metrics import behind_ms, quantile
from benchmarks.faults.tape import DELIVERED, NEVER, UNREPORTED, Tape
from benchmarks.kip480.plan import RATE

_MS = 1_000_000
_MILLION = 1_000_000


@frozen
class Run:
    """One run of one kind of producer in one cell. Latencies are from ``produce()`` to the delivery report.

    Attributes:
        round: In which round; runs of the same round are beside each other in time.
        records: How many were sent.
        unreported: How many of them were not reported on when waiting ended; they count with the time until
            then.
        failed: How many were reported as failed. There is no reason for any.
        cpu_s: CPU seconds of the producers' processes for a million records; None if not all were reported
            on, so that nobody knows what the rest would have taken.
        broker_cpu_s: The same of the brokers' processes.
        per_batch: Records in a batch.
        behind_ms: By how much the sending loop was late at most.
        steal: Share of the processors' time that the hypervisor took.
    """

    round: int
    records: int
    unreported: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_s: float | None
    broker_cpu_s: float | None
    per_batch: float
    behind_ms: float
    steal: float

    @property
    def p99_is_a_bound(self) -> bool:
        """Whether the p99 is of a record that was not reported on: it would have been later still."""
        return self.unreported > self.records / 100


def run_of(number: int, tapes: Sequence[Tape], begin_ns: int, *, broker_cpu_s: float, steal: float) -> Run:
    """Return what the instances of one run came to together."""
    latencies = sorted(latency for tape in tapes for latency in latencies_ms(tape))
    outcomes = [outcome for tape in tapes for outcome in tape.outcome]
    reported = len(outcomes) - outcomes.count(UNREPORTED)
    batches = sum(tape.measures["batches"] for tape in tapes)
    whole = reported == len(outcomes)
    millions = max(1, reported) / _MILLION
    return Run(
        round=number,
        records=len(outcomes),
        unreported=outcomes.count(UNREPORTED),
        failed=reported - outcomes.count(DELIVERED),
        p50_ms=round(quantile(latencies, 0.5), 2),
        p99_ms=round(quantile(latencies, 0.99), 2),
        max_ms=round(quantile(latencies, 1.0), 2),
        cpu_s=round(sum(tape.measures["cpu_s"] for tape in tapes) / millions, 1) if whole else None,
        broker_cpu_s=round(broker_cpu_s / millions, 1) if whole else None,
        per_batch=round(sum(tape.measures["batched"] for tape in tapes) / max(1, batches), 2),
        behind_ms=max(behind_ms(tape.sent, begin_ns, RATE) for tape in tapes),
        steal=round(steal, 4),
    )


def latencies_ms(tape: Tape) -> list[float]:
    """Return how long each record took; of one that was not reported on, how long it had taken so far."""
    ended = round(tape.measures["ended_ns"])
    return [
        ((ended if done == NEVER else done) - sent) / _MS
        for sent, done in zip(tape.sent, tape.done, strict=True)
        if sent != NEVER
    ]
