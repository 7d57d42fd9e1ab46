"""What the pipeline takes from a producer in the same process.

Each mode has a process of its own, with a producer, librdkafka's mock cluster, and a poller that knows
200,000 partitions; they take turns, so only one works at a time. What a broker loss costs beyond the poller's
own work is told by comparing "busy" with "losing".
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.events.hot_process import SENDS
from benchmarks.events.rows import Row, Target
from benchmarks.measure import Pair, Spread, interleaved

KEPT = Target(least=0.95)
_PER_MINUTE_US = 60e6


class HotProcess:
    """A process in one mode."""

    def __init__(self, process: "subprocess.Popen[str]", mode: str) -> None:
        self._process = process
        self._mode = mode
        self._read()  # it is ready

    def ask(self, command: str) -> dict[str, float]:
        """Let it work; return what it measured."""
        assert self._process.stdin is not None  # noqa: S101 - asked for
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        answer: dict[str, float] = json.loads(self._read())
        return answer

    def _read(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - asked for
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the process with the {self._mode} producer has ended: see above")
        return line

    def cost(self) -> float:
        """Return the microseconds that a record took."""
        return self.ask("cost")["us"]


@contextmanager
def hot_process(mode: str, count: int) -> Iterator[HotProcess]:
    """Start a process, and end it."""
    command = [sys.executable, "-m", "benchmarks.events.hot_process", mode, str(count)]
    with subprocess.Popen(  # noqa: S603 - our own
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield HotProcess(process, mode)
        except BaseException:
            process.kill()
            raise


def measure(*, quick: bool) -> Iterator[Row]:
    count, pairs = (100_000, 2) if quick else (500_000, 7)
    with ExitStack() as opened:
        bare = opened.enter_context(hot_process("bare", count))

        def against(reference: HotProcess, mode: str) -> tuple[HotProcess, Pair]:
            process = opened.enter_context(hot_process(mode, count))
            return process, interleaved(process.cost, reference.cost, pairs)

        _, idle = against(bare, "idle")
        yield _row("pipeline idle", idle, "no listeners", KEPT)
        _, scraped = against(bare, "scraped")
        yield _row("pipeline idle, scraped once in each run", scraped, "no listeners")
        losing, loss = against(bare, "losing")
        yield _row("no listeners, a broker lost in each run", loss, "no loss")
        busy, work = against(losing, "busy")
        yield _row("pipeline, a broker lost in each run, scraped", work, "the same loss, no listeners")
        yield _once_a_minute(work, SENDS * count)
        yield from _pauses(bare, losing, busy, 2 if quick else 5)


def _row(what: str, pair: Pair, peer: str, target: Target | None = None) -> Row:
    return Row(
        what=f"producer: {what}",
        unit="us a record",
        ours=pair.a,
        peer=(peer, pair.b),
        ratio=pair.ratio,
        target=target,
        judged=pair.ratio,
        digits=2,
        extra={"discarded": pair.discarded},
    )


def once_a_minute(pair: Pair, count: int) -> float:
    """Return the share of a minute's records that remain if what one run lost is lost once a minute."""
    lost_us = (pair.a.median - pair.b.median) * count
    return 1 - lost_us / _PER_MINUTE_US


def _once_a_minute(pair: Pair, count: int) -> Row:
    share = once_a_minute(pair, count)
    return Row(
        what="producer: the same, were it once a minute (computed)",
        unit="of the records",
        ours=Spread(share, share, share),
        target=KEPT,
        digits=3,
    )


def _pauses(bare: HotProcess, losing: HotProcess, busy: HotProcess, runs: int) -> Iterator[Row]:
    processes = {"bare": bare, "losing": losing, "busy": busy}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in processes}
    for _ in range(runs):
        for name, process in processes.items():
            found[name].append(process.ask("pauses"))
    for key, what in (
        ("worst_ms", "longest call of produce()"),
        ("above_ms", "all calls over 1 ms, together"),
    ):
        spreads = {name: Spread.of([run[key] for run in answers]) for name, answers in found.items()}
        for name, peer in (("losing", "no loss"), ("busy", "no loss")):
            listeners = "pipeline" if name == "busy" else "no listeners"
            yield Row(
                what=f"producer: {listeners}, a broker lost: {what}",
                unit="ms",
                ours=spreads[name],
                peer=(peer, spreads["bare"]),
                digits=1,
            )
