"""200,000 partitions in real answers: what poller and observer cost, each a process of its own.

They poll a fake cluster (`fake_broker.py`) whose broker 3 comes and goes, and with it the leaders of 33,333
partitions. What a poll costs is the CPU time of the whole process from one answer to the next.
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import asdict, field, frozen

from benchmarks.errors import BenchError
from benchmarks.fake_answers import BROKERS, LOST, PARTITIONS, TOPICS
from benchmarks.fake_broker import FakeCluster, Note, costs, fake_cluster, findings
from benchmarks.measure import Spread, memory_mib, save
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import SupervisedProcess, tail

ROUNDS = 10
INTERVAL_S, PAUSE_S = 4.0, 3.0
"""Between polls of what polls by itself, and between answers: while something is offline it polls sooner."""
SETTLING = 1
"""While a service deals with a change, it polls so many times more."""
CLIENTS: Final = ("kafka-python", "confluent-kafka")
_LIMIT_S = 60.0
_KINDS: Final = {
    "unchanged": "nothing has changed",
    "lose": "a sixth of the partitions goes offline",
    "return": "they come back",
    "grow": "40 topics have one partition more",
}

_Told = dict[str, list[float]]


@frozen(kw_only=True)
class Subject:
    """A process that polls.

    Attributes:
        pid: The process.
        poll: Makes it poll, or waits until it does, so many times at least.
        told: Returns in how many seconds all was told, by what the polls found.
        settling: During how many polls more a change is still being dealt with.
        warm_up: How many answers there are before anything is measured.
        scrape: Reads its metrics.
    """

    pid: int
    poll: Callable[[int], None]
    told: Callable[[Sequence[Note]], _Told] = lambda _notes: {}
    settling: int = 0
    warm_up: int = 1
    scrape: Callable[[], bytes] | None = None


@frozen(kw_only=True)
class Found:
    """What a process needed. Lists are in the order of the polls.

    Attributes:
        cpu_s: CPU seconds of polls, by what they found.
        told_s: Seconds until it was told, by the same.
        received_mb: Megabytes of the answers to a poll that found nothing.
        sent_kb: Kilobytes of its requests.
        memory_mib: Resident memory before the first answer, at rest after `ROUNDS` polls, and at most.
        scrape: Megabytes of one scrape of its metrics, and the polls that it says have failed.
        share: The share of a core that it took, changes included, if it polls by itself.
    """

    cpu_s: dict[str, list[float]]
    told_s: dict[str, list[float]]
    received_mb: list[float]
    sent_kb: list[float]
    memory_mib: dict[str, float]
    scrape: dict[str, float] = field(factory=dict)
    share: float | None = None


def play(fake: FakeCluster, subject: Subject, rounds: int) -> Found:
    """Let it poll through the story, and return what it needed."""
    subject.poll(subject.warm_up)
    begun = fake.count()
    subject.poll(rounds)
    for _ in range(rounds):
        for change in ("lose", "return", "grow"):
            fake.change(change)
            subject.poll(1 + 2 * subject.settling)
    subject.poll(1)  # the last but one ends where this one begins
    first, notes = fake.notes()[0], fake.notes()[begun:]
    quiet = [poll for kind, (poll, *_) in findings(notes, subject.settling) if kind == "unchanged"]
    return Found(
        cpu_s=costs(notes, subject.settling),
        told_s=dict(subject.told(notes)),
        received_mb=[(after.sent - now.sent) / 1e6 for now, after in quiet],
        sent_kb=[(after.received - now.received) / 1e3 for now, after in quiet],
        memory_mib={
            "before": first.rss_mib,
            "at rest": notes[rounds].rss_mib,
            "at most": memory_mib(subject.pid, "VmHWM"),
        },
        scrape={} if subject.scrape is None else scraped(subject.scrape),
        share=None
        if subject.scrape is None
        else (notes[-1].cpu_s - notes[0].cpu_s) / (notes[-1].at - notes[0].at),
    )


def scraped(scrape: Callable[[], bytes]) -> dict[str, float]:
    """Return what one scrape brings. Its CPU can't be told: the last poll is still going on."""
    text = scrape()
    failed = sum(
        float(line.rsplit(b" ", 1)[1])
        for line in text.splitlines()
        if line.startswith(b"kafka_metadata_poll_failures_total{")
    )
    return {"mb": len(text) / 1e6, "failed_polls": failed}


# -- the processes ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def poller(client: str, fake: FakeCluster) -> Iterator[Subject]:
    """Run a poller with one listener; see `one_poller.py`."""
    command = [sys.executable, "-m", "benchmarks.one_poller", client, fake.bootstrap_servers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        took: list[float] = []

        def poll(count: int) -> None:
            assert process.stdin is not None  # noqa: S101 - both were asked for
            assert process.stdout is not None  # noqa: S101
            for _ in range(count):
                process.stdin.write("\n")
                process.stdin.flush()
                said = process.stdout.readline()
                if not said:
                    raise BenchError(f"the poller with {client} has ended")
                took.append(json.loads(said)[0])

        def told(notes: Sequence[Note]) -> _Told:
            found: _Told = defaultdict(list)
            for (kind, _), seconds in zip(findings(notes), took[-len(notes) :], strict=False):
                found[kind].append(seconds)
            return found

        try:
            fake.watch(process.pid)
            yield Subject(pid=process.pid, poll=poll, told=told)
        finally:
            process.kill()


@contextlib.contextmanager
def service(arguments: Sequence[str | Path], directory: Path) -> Iterator[tuple[int, str]]:
    """Run ``kpe`` with these arguments; return its process id and its URL."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "kafka_partition_events.cli", *arguments, "--listen", f"{HOST}:{port}"]
    log = directory / "service.log"
    process = SupervisedProcess(command, log=log)
    try:
        yield process.pid, f"http://{HOST}:{port}"
    except BenchError as error:
        error.add_note(tail(log))
        raise
    finally:
        process.kill()


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_LIMIT_S) as response:  # noqa: S310 - our own
        found: bytes = response.read()
        return found


@contextlib.contextmanager
def observer(fake: FakeCluster) -> Iterator[Subject]:
    """Run ``kpe observe`` without sinks."""
    with tempfile.TemporaryDirectory(prefix="bench-large-") as scratch:
        outbox = Path(scratch) / "outbox.db"
        arguments = ["observe", "-b", fake.bootstrap_servers, "--interval", f"{INTERVAL_S:g}s"]

        def told(notes: Sequence[Note]) -> _Told:
            with contextlib.closing(sqlite3.connect(outbox)) as file:
                rows = file.execute("SELECT recorded_at / 1e6 FROM entries WHERE stream = 'events'")
                recorded = [at for (at,) in rows]
            found: _Told = defaultdict(list)
            for kind, polls in findings(notes, SETTLING):
                begun, over = polls[0][0].at, polls[-1][1].at
                of_this = [at for at in recorded if begun <= at < over]
                if of_this and kind != "unchanged":
                    found[kind].append(max(of_this) - begun)
            return found

        with service([*arguments, "--outbox", outbox], Path(scratch)) as (pid, url):
            fake.watch(pid, PAUSE_S)
            yield Subject(
                pid=pid,
                poll=fake.await_answers,
                told=told,
                settling=SETTLING,
                warm_up=3,  # the first poll of a busy machine may come too late
                scrape=lambda: read(f"{url}/metrics"),
            )


# -- all of it -------------------------------------------------------------------------------------------


def measured(rounds: int) -> dict[str, Found]:
    """Return what each process needed; each has a fake cluster of its own."""
    found = {}
    for client in CLIENTS:
        with fake_cluster() as fake, poller(client, fake) as subject:
            found[f"poller, {client}"] = play(fake, subject, rounds)
    with fake_cluster() as fake, observer(fake) as subject:
        found["`kpe observe`"] = play(fake, subject, rounds)
    return found


def table(found: dict[str, Found]) -> list[list[str]]:
    def row(what: str, values: Callable[[Found], Sequence[float] | None], digits: int = 2) -> list[str]:
        cells = [values(each) for each in found.values()]
        return [what, *(Spread.of(cell).text(digits) if cell else "-" for cell in cells)]

    rows = [
        row(f"CPU of a poll, s: {text}", lambda each, kind=kind: each.cpu_s.get(kind))  # type: ignore[misc]
        for kind, text in _KINDS.items()
    ]
    rows += [
        row(f"until all events are delivered, s: {text}", lambda each, kind=kind: each.told_s.get(kind))  # type: ignore[misc]
        for kind, text in _KINDS.items()
    ]
    rows += [
        row("received in a poll, MB", lambda each: each.received_mb, 1),
        row("sent in a poll, kB", lambda each: each.sent_kb, 1),
    ]
    names = {"before": "before the first answer", "at rest": "between two polls", "at most": "at most"}
    for name, text in names.items():
        rows.append([f"memory, MiB: {text}", *(f"{each.memory_mib[name]:.0f}" for each in found.values())])
    scrapes = (f"{each.scrape['mb']:.1f}" if each.scrape else "-" for each in found.values())
    rows.append(["`/metrics`, MB", *scrapes])
    rows.append(
        [
            "share of a core, changes included",
            *("-" if each.share is None else f"{each.share:.0%}" for each in found.values()),
        ]
    )
    counts = [
        (len(each.cpu_s["unchanged"]), len(each.cpu_s["lose"])) if each.cpu_s else None
        for each in found.values()
    ]
    rows.append(
        [
            "polls: nothing has changed, each change",
            *("-" if c is None else f"{c[0]}, {c[1]}" for c in counts),
        ]
    )
    return rows


def report(found: dict[str, Found]) -> None:
    save(
        "large",
        f"Polls of {TOPICS * PARTITIONS:,} partitions ({TOPICS:,} topics, {len(BROKERS)} brokers)",
        ["what", *found],
        table(found),
        {
            "lost": LOST,
            "load": os.getloadavg(),
            "found": {name: asdict(each) for name, each in found.items()},
        },
    )


def main(*, quick: bool = False) -> None:
    report(measured(2 if quick else ROUNDS))


if __name__ == "__main__":
    main()
