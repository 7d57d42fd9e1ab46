"""An hour at a steady rate with a fault a minute: is all delivered, and is what our processes take flat?

::

    make soak                                              an hour at 20,000 records/s
    make soak ARGS="--seconds 240 --rate 5000 --seed 7"    a short one
    python -m tests.chaos.soak --out DIRECTORY/soak        an hour; writes soak.json and soak.md there

Three real brokers and three controllers, replication factor 3, min.insync.replicas=2, acks=all, Kafka's
time-outs. Two `PartitioningProducer`, one with rescue="hedge", and an attached kafka-python producer (at most
1,000 records/s) write, and `kpe observe` watches, each a process of its own. Each minute a broker is killed,
frozen, stopped, delayed or cut off from clients, or the active controller is killed, for 5 to 20 s.

Memory, threads, files and sockets of each process are read every 10 s. Their means in the last sixth of the
time must not be above those in the second sixth: by more than 10 MB or 10%, whichever is more; by more than
2 threads, files or sockets. Each record must have one outcome, and each partition have what was acknowledged
(with a rescue a copy in the same partition may stand for a lost record: `make chaos` looks at each one).
Each ten minutes have the same kinds of faults. A run of less than an hour compares different ones: memory
that a stall takes for the first time, and the process keeps, counts as growth there.

Exit codes: 0 flat and complete; 1 it is not: what grew or is missing is listed; 2 the test itself failed.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from attrs import asdict, frozen
from confluent_kafka import KafkaException

from benchmarks.markdown import machine_of, table
from benchmarks.measure import Environment, busy
from kafka_partition_events.errors import JvmError
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError
from tests.chaos.disturbing import say
from tests.chaos.soak_world import SAMPLE_S, Soak
from tests.chaos.steady import LIMITS, Counts, Fault, Growth, Sample, faults, growths, losses, writers
from tests.http_receiver import Receiver
from tests.observe_kit import Observer, hook

LEAST_S = 13 * SAMPLE_S
"""Two samples for each sixth."""
_LEAST_DONE = 0.9
"""The share of the faults that must be carried out: one is left out where Kafka took long to recover."""
_LATE_S = 30.0
"""A fault whose turn was so long ago is left out: Kafka took long to recover from the one before."""
_BROKERS: Final = {
    "min.insync.replicas": "2",
    # An hour's records three times over are some 25 GB; offsets, which are what is compared, go on.
    "log.segment.bytes": str(32 << 20),
    "log.retention.bytes": str(64 << 20),
}


@frozen(kw_only=True)
class Found:
    """What was measured, but for what the soak itself has noted: samples, faults, scrapes.

    Attributes:
        took: How long writers wrote, until they were told to stop.
        rates: How many records each sent in a second.
        counts: What each has counted at last.
        written: How many records each partition has, by writer.
        busy: How much of the machine's processors everything together took.
        pages: How many requests the observer's webhook got.
    """

    took: float
    rates: Mapping[str, float]
    counts: Mapping[str, Counts]
    written: Mapping[str, Sequence[int]]
    busy: float
    pages: int


def run(
    ending: ExitStack, planned: Sequence[Fault], seconds: float, rate: float, directory: Path
) -> tuple[Soak, Found]:
    """Run the test, and return what was found.

    Raises:
        KitError: Kafka or a process of ours did not do what it was asked, or has ended.
    """
    shares, target = writers(rate), ending.enter_context(Receiver(204))
    cluster = KafkaCluster(3, controllers=3, session_timeout_ms=9_000, broker_config=_BROKERS, links=True)
    ending.enter_context(cluster)
    observer = Observer(directory, cluster, "observer", hook(target.url), topics="|".join(shares))
    soak = Soak(cluster, directory, observer, shares)
    ending.callback(soak.kill)
    soak.start(rate)
    begun, begun_at, busy_before = soak.counts(), time.monotonic(), busy()
    with soak.sampled():
        _disturb(soak, planned, seconds, begun_at)
    took, stopped, busy_s = time.monotonic() - begun_at, soak.counts(), busy() - busy_before
    soak.check()
    soak.stop()
    return soak, Found(
        took=took,
        rates={name: (stopped[name].sent - begun[name].sent) / took for name in shares},
        counts=soak.counts(),
        written=soak.written(),
        busy=busy_s / took / (os.cpu_count() or 1),
        pages=len(target.requests),
    )


def _disturb(soak: Soak, planned: Sequence[Fault], seconds: float, begun_at: float) -> None:
    """Let the faults come, and return when the time is over."""
    for fault in planned:
        late = time.monotonic() - begun_at - fault.begin
        if late > _LATE_S:
            say(f"left out: {fault}")
            continue
        time.sleep(max(0.0, -late))
        soak.check()
        soak.disturb(fault)
    time.sleep(max(0.0, begun_at + seconds - time.monotonic()))


def violations(soak: Soak, found: Found, planned: int) -> list[str]:
    """Return what did not hold."""
    wrong = [*soak.trouble]
    for name, writer in soak.writers.items():
        lost = losses(found.counts[name], found.written[name], copies=writer.rescue is not None)
        wrong += [f"{name}: {loss}" for loss in lost]
    if len(soak.done) < _LEAST_DONE * planned:
        wrong.append(f"{len(soak.done)} of {planned} faults were carried out")
    for name, samples in soak.samples.items():
        grown = growths(samples).items()
        wrong += [
            f"{name}: {figure} grew: {growth.before:.1f} → {growth.after:.1f}"
            for figure, growth in grown
            if not growth.is_flat
        ]
    return wrong


def page_of(soak: Soak, found: Found, seed: int, wrong: Sequence[str]) -> str:
    """Return the report, as Markdown."""
    here, kinds = Environment(), Counter(done.split()[0] for done in soak.done)
    head = (
        f"{found.took:,.0f} s, seed {seed}; {sum(found.rates.values()):,.0f} records/s; "
        f"{len(soak.done)} faults: {dict(sorted(kinds.items()))}; processors busy: "
        f"{found.busy:.0%}; scrapes answered: {sum(soak.scrapes)} of {len(soak.scrapes)}; pages sent: "
        f"{found.pages}. {here.taken_at}; Python {here.python}, {machine_of(here)}; {here.versions}."
    )
    processes = [
        [name, *map(_text, growths(samples).values()), f"{_cpu(samples):.0%}"]
        for name, samples in soak.samples.items()
    ]
    records = []
    for name, its in found.counts.items():
        numbers = its.sent, its.answered, sum(found.written[name]), its.skipped, sum(its.failed.values())
        records.append([name, f"{found.rates[name]:,.0f}", *(f"{each:,}" for each in numbers)])
    parts = (
        head,
        table(["process", *LIMITS, "of one processor"], processes),
        "Means of the second sixth of the time and of the last one; memory in MB.",
        table(["writer", "records/s", "sent", "outcomes", "in the topic", "skipped", "failed"], records),
        "\n".join(f"- **VIOLATED**: {each}" for each in wrong) or "Flat and complete.",
    )
    return "\n\n".join(parts) + "\n"


def _text(growth: Growth) -> str:
    text = f"{growth.before:.1f} → {growth.after:.1f} ({growth.after - growth.before:+.1f})"
    return text if growth.is_flat else f"**{text}**"


def _cpu(samples: Sequence[Sample]) -> float:
    """Return how much of one processor a process has used."""
    return (samples[-1].cpu_s - samples[0].cpu_s) / (samples[-1].at - samples[0].at)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.soak", description=__doc__, formatter_class=raw
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="for how long (default: an hour)")
    parser.add_argument("--rate", type=float, default=20_000.0, help="records/s of all writers (20000)")
    parser.add_argument("--seed", type=int, default=None, help="which faults; by default a seed by the clock")
    parser.add_argument("--out", type=Path, metavar="PATH", help="write PATH.json and PATH.md")
    options = parser.parse_args()
    if options.seconds < LEAST_S or options.rate <= 0:
        parser.error(f"--seconds must be at least {LEAST_S:.0f}, and --rate more than 0")
    seed = int(time.time()) if options.seed is None else options.seed
    planned, directory = faults(seed, options.seconds), Path(tempfile.mkdtemp(prefix="kpe-soak-"))
    say(f"seed {seed}, {options.seconds:g} s at {options.rate:g} records/s; {directory}")
    try:
        with ExitStack() as ending:
            soak, found = run(ending, planned, options.seconds, options.rate, directory)
    except (KitError, JvmError, KafkaException, OSError) as error:
        print(f"error: the test failed: {error}; see {directory}", file=sys.stderr)  # noqa: T201
        return 2
    wrong = violations(soak, found, len(planned))
    page = page_of(soak, found, seed, wrong)
    print(page)  # noqa: T201
    if options.out is not None:
        all_of_it = {"seed": seed, **asdict(found), "done": soak.done, "violations": wrong}
        samples = {name: [asdict(each) for each in taken] for name, taken in soak.samples.items()}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.with_suffix(".md").write_text(f"# A steady hour\n\n{page}")
        options.out.with_suffix(".json").write_text(json.dumps({**all_of_it, "samples": samples}) + "\n")
    if wrong:
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
