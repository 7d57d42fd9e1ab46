"""Numbers from records. Pure: what was seen goes in, figures come out."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from attrs import frozen

from benchmarks import kept
from benchmarks.faults.layouts import LATE_MS, Layout
from benchmarks.faults.tape import DELIVERED, FIRST_ERROR, NEVER, UNREPORTED, Tape

_NS = 1_000_000_000
_MS = 1_000_000
BUCKET_S = 0.1
_MARGIN_NS = _NS // 10
"""Records sent this short before the fault may still have met it: they are no baseline."""


class Record(NamedTuple):
    """One record: what its producer said (`error` is None if it was delivered), and what the topic says.

    `done_ns` is `NEVER` for a record that was never reported on; `broker` leads the partition where it went
    or was meant to go, and is None if the client does not say; `copies` is how often it is in the topic.
    """

    sent_ns: int
    done_ns: int
    broker: int | None
    error: str | None
    copies: int
    limit_ms: float

    @property
    def latency_ms(self) -> float:
        """From the call of ``produce`` to the report; the delivery limit for a record that failed.

        When exactly a client gets round to failing it (librdkafka looks once a second) is no merit.
        """
        return (self.done_ns - self.sent_ns) / _MS if self.error is None else self.limit_ms


NOT_REPORTED = "never reported"


@frozen
class Window:
    """When the load began, when the fault, and when the load was to end; ns."""

    begin_ns: int
    fault_ns: int
    end_ns: int


def records_of(tape: Tape, stored: Mapping[int, int], layout: Layout) -> list[Record]:
    """Join what the load saw with what was read back."""
    names: dict[int, str | None] = {UNREPORTED: NOT_REPORTED, DELIVERED: None}
    names.update(enumerate(tape.errors, FIRST_ERROR))
    columns = zip(tape.sent, tape.done, tape.partition, tape.outcome, strict=True)
    return [
        Record(
            sent,
            done,
            layout.leader_of(partition) if partition >= 0 else None,
            names[outcome],
            stored.get(number, 0),
            layout.delivery_limit_ms,
        )
        for number, (sent, done, partition, outcome) in enumerate(columns)
        if sent != NEVER
    ]


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values doesn't exceed; 0 of nothing."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


@frozen
class Figures:
    """What one group of records came to.

    Latencies, `late` and `to_faulty` are of the records sent from the fault on; the counts are of all.

    Attributes:
        records: How many were sent.
        p50_ms, p99_ms, max_ms: Quantiles of `Record.latency_ms`.
        late: Share that took over 100 ms, failed or was never reported on.
        to_faulty: Share that went (or was meant to go) to the disturbed broker; None if there is none.
        failed: Not delivered as far as the producer knows: an error, or no report at all.
        unreported: How many of the failed were never reported on.
        lost: Not in the topic.
        vanished: Reported as delivered and yet not in the topic. Must be 0.
        duplicates: Copies in the topic beyond the first of a record.
    """

    records: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    late: float
    to_faulty: float | None
    failed: int
    unreported: int
    lost: int
    vanished: int
    duplicates: int

    @classmethod
    def of(cls, records: Sequence[Record], fault_ns: int, faulty: int | None) -> Self:
        since = [record for record in records if record.sent_ns >= fault_ns]
        latencies = sorted(record.latency_ms for record in since)
        at_faulty = sum(record.broker == faulty for record in since)
        late = sum(record.error is not None or record.latency_ms > LATE_MS for record in since)
        return cls(
            records=len(records),
            p50_ms=round(quantile(latencies, 0.5), 2),
            p99_ms=round(quantile(latencies, 0.99), 2),
            max_ms=round(quantile(latencies, 1.0), 2),
            late=late / max(1, len(since)),
            to_faulty=None if faulty is None else at_faulty / max(1, len(since)),
            failed=sum(record.error is not None for record in records),
            unreported=sum(record.error == NOT_REPORTED for record in records),
            lost=sum(record.copies == 0 for record in records),
            vanished=sum(record.copies == 0 and record.error is None for record in records),
            duplicates=sum(record.copies - 1 for record in records if record.copies > 1),
        )


def latency_series(records: Iterable[Record], window: Window) -> str:
    """Return the p99 of each 0.1 s of sending in whole ms, as words: ``-`` where nothing was sent.

    One string: a list would take a line for each number in the results file.
    """
    buckets: dict[int, list[float]] = {}
    for record in records:
        bucket = int((record.sent_ns - window.begin_ns) / (BUCKET_S * _NS))
        buckets.setdefault(bucket, []).append(record.latency_ms)
    count = round((window.end_ns - window.begin_ns) / (BUCKET_S * _NS))
    p99 = (quantile(sorted(buckets.get(i, ())), 0.99) for i in range(count))
    return " ".join(f"{value:.0f}" if value else "-" for value in p99)


@frozen
class Reading:
    """What an `OrderedConsumer` handed out of the records that were delivered.

    Attributes:
        p50_ms, p99_ms: From the call of ``produce`` until a record was handed out; those from the fault on.
        out_of_order: How many came after a later one of their key. Must be 0.
        twice: How many came again. Must be 0.
        unread: How many never came. Must be 0.
    """

    p50_ms: float
    p99_ms: float
    out_of_order: int
    twice: int
    unread: int

    @classmethod
    def of(
        cls, read: Iterable[tuple[int, int]], tape: Tape, fault_ns: int, key_of: Callable[[int], bytes | None]
    ) -> Self:
        """``read`` has the number of each record that was handed out, and when (ns)."""
        delivered = {number for number, outcome in enumerate(tape.outcome) if outcome == DELIVERED}
        first: dict[int, int] = {}
        latest: dict[bytes | None, int] = {}
        twice = out_of_order = 0
        for number, at_ns in read:
            if number in first:
                twice += 1
            elif number in delivered:
                first[number] = at_ns
                out_of_order += number < latest.get(key := key_of(number), -1)
                latest[key] = max(number, latest.get(key, -1))
        since = sorted((at - tape.sent[n]) / _MS for n, at in first.items() if tape.sent[n] >= fault_ns)
        p50_ms, p99_ms = (round(quantile(since, share), 2) for share in (0.5, 0.99))
        return cls(p50_ms, p99_ms, out_of_order, twice, len(delivered - first.keys()))


@frozen
class Run:
    """One run of one producer in one scenario.

    Attributes:
        round: In which round; runs of the same round are beside each other in time.
        figures: What became of the records.
        before_p99_ms: Latency before the fault: whether the run began well.
        achieved: Records sent before the fault, over those that were due.
        behind_ms: By how much the sending loop was late at most, the fault included.
        in_flight: Outstanding when the fault began: nobody can save those that are on the broken broker,
            short of sending them again.
        steal: Share of the processors' time that the hypervisor took during the load.
        complete: Whether the fault ran its course before the load ended.
        reported_again: Second reports on a record; must be 0.
        errors: What the failed records' producer said, and how often.
        counters: What the producer counted, in its own words.
        series: See `latency_series`; empty if no picture needs it.
        exclusions: How often a producer of ours took a broker for silent; None of the others.
        exclusions_elsewhere: How many of those were not of the disturbed broker.
        reading: What was read meanwhile, if it was.
    """

    round: int
    figures: Figures
    before_p99_ms: float
    achieved: float
    behind_ms: float
    in_flight: int
    steal: float
    complete: bool
    reported_again: int
    errors: dict[str, int]
    counters: str
    series: str
    exclusions: int | None = None
    exclusions_elsewhere: int | None = None
    reading: Reading | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        reading = Reading(**found) if (found := data.get("reading")) else None
        return cls(**{**data, "figures": Figures(**data["figures"]), "reading": reading})


def before_p99_ms(records: Iterable[Record], fault_ns: int) -> float:
    before = sorted(record.latency_ms for record in records if record.sent_ns < fault_ns - _MARGIN_NS)
    return round(quantile(before, 0.99), 2)


def achieved(records: Iterable[Record], window: Window, rate: int) -> float:
    """Return the records sent before the fault over those that were due."""
    due = (window.fault_ns - window.begin_ns) / _NS * rate
    return round(sum(record.sent_ns < window.fault_ns for record in records) / due, 4)


def behind_ms(sent_ns: Sequence[int], begin_ns: int, rate: int) -> float:
    """Return by how much the loop was late at most."""
    lags = (sent - begin_ns - number * _NS // rate for number, sent in enumerate(sent_ns) if sent != NEVER)
    return round(max(lags, default=0) / _MS, 2)


def in_flight(records: Iterable[Record], fault_ns: int) -> int:
    return sum(record.sent_ns < fault_ns and not NEVER < record.done_ns < fault_ns for record in records)


def errors_of(records: Iterable[Record]) -> dict[str, int]:
    return dict(Counter(record.error for record in records if record.error is not None).most_common())


Measured = kept.Measured[Run]
Result = kept.Result[Run]
