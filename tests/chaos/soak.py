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
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from benchmarks.markdown import machine_of
from benchmarks.measure import Environment, busy
from kafka_partition_events.errors import JvmError
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError
from tests.chaos.disturbing import say
from tests.chaos.soak_load import FINISH_S
from tests.chaos.soak_report import Found, as_json, markdown
from tests.chaos.soak_world import Soak
from tests.chaos.steady import MINUTE_S, WRITERS, faults
from tests.http_receiver import Receiver
from tests.observe_kit import Observer, hook

SAMPLE_S, SCRAPE_S = 10.0, 15.0
LEAST_S = 13 * SAMPLE_S
"""Two samples for each sixth."""
_LATE_S = 30.0
"""A fault whose turn was so long ago is left out: Kafka took long to recover from the one before."""
_BROKERS: Final = {
    "min.insync.replicas": "2",
    # An hour's records three times over are some 25 GB; offsets, which are what is compared, go on.
    "log.segment.bytes": str(32 << 20),
    "log.retention.bytes": str(64 << 20),
}


def run(seed: int, seconds: float, rate: float, directory: Path) -> Found:
    """Run the test, and return what was found.

    Raises:
        KitError: Kafka or a process of ours did not do what it was asked, or has ended.
    """
    with ExitStack() as ending:
        target = ending.enter_context(Receiver(204))
        cluster = KafkaCluster(3, controllers=3, session_timeout_ms=9_000, broker_config=_BROKERS, links=True)
        ending.enter_context(cluster)
        settings = hook(target.url)
        observer = Observer(directory, cluster, "observer", settings, topics="|".join(WRITERS))
        soak = Soak(cluster, directory, observer)
        ending.callback(soak.kill)
        soak.start(rate)
        begun, begun_at, busy_before = soak.counts(), time.monotonic(), busy()
        with ExitStack() as meanwhile:
            for pause, do in ((SAMPLE_S, soak.sample), (SCRAPE_S, soak.scrape), (MINUTE_S, soak.progress)):
                meanwhile.enter_context(soak.each(pause, do))
            _faults(soak, seed, seconds, begun_at)
        took, stopped, busy_s = time.monotonic() - begun_at, soak.counts(), busy() - busy_before
        soak.check()
        soak.stop(*WRITERS, limit=FINISH_S + 30.0)
        soak.stop("observer", limit=60.0)
        return Found(
            seed=seed,
            seconds=seconds,
            took=took,
            begun=begun,
            stopped=stopped,
            counts=soak.counts(),
            written=soak.written(),
            samples=soak.samples,
            done=soak.done,
            trouble=soak.trouble,
            busy=busy_s / took / (os.cpu_count() or 1),
            scrapes=(sum(soak.scrapes), len(soak.scrapes)),
            pages=len(target.requests),
            machine=_machine(),
        )


def _faults(soak: Soak, seed: int, seconds: float, begun_at: float) -> None:
    """Let the faults come, and return when the time is over."""
    for fault in faults(seed, seconds):
        late = time.monotonic() - begun_at - fault.begin
        if late > _LATE_S:
            say(f"left out: {fault}")
            continue
        time.sleep(max(0.0, -late))
        soak.check()
        soak.disturb(fault)
    while (left := begun_at + seconds - time.monotonic()) > 0:
        time.sleep(min(left, 5.0))
        soak.check()


def _machine() -> str:
    here = Environment()
    versions = ", ".join(f"{package} {number}" for package, number in here.versions.items())
    return f"{here.taken_at}; Python {here.python}, {machine_of(here)}; {versions}."


def _report(found: Found, out: Path | None) -> None:
    report = markdown(found)
    print(report)  # noqa: T201
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.with_suffix(".md").write_text(f"# A steady hour\n\n{report}")
        out.with_suffix(".json").write_text(json.dumps(as_json(found), indent=1) + "\n")


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
    directory = Path(tempfile.mkdtemp(prefix="kpe-soak-"))
    say(f"seed {seed}, {options.seconds:g} s at {options.rate:g} records/s; {directory}")
    try:
        found = run(seed, options.seconds, options.rate, directory)
        _report(found, options.out)
    except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing of what is tested
        if not isinstance(error, (KitError, JvmError, KafkaException, OSError)):
            traceback.print_exc()
        print(f"error: the test failed: {error}; see {directory}", file=sys.stderr)  # noqa: T201
        return 2
    if list(found.violations()):
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
