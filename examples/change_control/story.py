"""One change from plan to converged: three brokers, two producers, two consumer groups, and an operator.

    python examples/change_control/story.py

It starts a real Kafka (Java 17) and everything else, types what an operator would type, and prints that and
the answers. It takes a minute.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kafka_partition_events.testing import KafkaCluster

HERE = Path(__file__).parent
LIMIT_S = 120.0
READING_S = 5.0
CHANGE = "orders-to-12"
FROM, TO = 6, 12
WANTED = f"--topic orders --to {TO} --gate"


class Story:
    """Runs commands and programs, and prints what they say."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.counts: dict[str, int] = {}
        """How many records on new partitions each producer has written, and each consumer has read."""

    def kpe(self, line: str, *, quiet: bool = False) -> str:
        """Run a command as an operator would; print it, and what it says."""
        words = [sys.executable, "-m", "kafka_partition_events.cli", *line.split(), "-b", self._address]
        done = subprocess.run(  # noqa: S603 - our own words
            words, env=_terminal(), capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        if not quiet:
            print(f"$ kpe {line} -b $KAFKA", *_lines(done.stdout), *_lines(done.stderr), sep="\n")
            print(f"(exit code {done.returncode})\n" if done.returncode else "", flush=True)
        return done.stdout

    @contextlib.contextmanager
    def program(self, name: str, words: Sequence[str]) -> Iterator[None]:
        """Let a program run meanwhile; then stop it, and print what it says."""
        process = subprocess.Popen(  # noqa: S603 - our own words
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            said, trouble = process.communicate(timeout=LIMIT_S)
            print(*_lines(said), sep="\n")
            counted = re.findall(r"(\d+): (\d+)", said)
            self.counts[name] = sum(int(count) for partition, count in counted if int(partition) >= FROM)
            if process.returncode and process.returncode != -signal.SIGTERM:
                raise RuntimeError(f"{name} has failed:\n{trouble}")

    def writer(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Let a producer run."""
        return self.program(name, self._example("writer.py", name))

    def reader(self, name: str, group: str, *more: str) -> contextlib.AbstractContextManager[None]:
        """Let a consumer run."""
        return self.program(name, [*self._example("reader.py", name), f"--group={group}", *more])

    def tracker(self) -> contextlib.AbstractContextManager[None]:
        """Let a tracker run."""
        words = [sys.executable, "-m", "kafka_partition_events.cli", "tracker", "-b", self._address]
        return self.program("kpe tracker", [*words, "--listen", "127.0.0.1:0"])

    def wait_for_all(self, change: str, producers: int, hooked: int) -> None:
        """Wait until so many producers, and members with the hook, have told that they are there."""
        deadline, found = time.monotonic() + LIMIT_S, (0, 0)
        while found != (producers, hooked):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{found} producers and members with the hook have come")
            time.sleep(0.5)
            if said := self.kpe(f"change plan {change} --output jsonl", quiet=True):
                plan = json.loads(said)
                found = plan["producers"], sum(group["hooked"] for group in plan["groups"] or ())

    def _example(self, file: str, name: str) -> list[str]:
        return [sys.executable, str(HERE / file), f"--bootstrap-servers={self._address}", f"--name={name}"]


def main() -> None:
    """Tell the story."""
    with KafkaCluster(brokers=3) as cluster, contextlib.ExitStack() as programs:
        story = Story(cluster.bootstrap_servers)
        cluster.create_topic("orders", FROM)
        story.kpe("tracker init --output table")
        for scene in (
            story.tracker(),
            story.reader("billing-0", "billing"),
            story.reader("billing-1", "billing"),
            story.reader("audit-0", "audit", "--without-library"),
        ):
            programs.enter_context(scene)
        with story.writer("shop-0"), story.writer("shop-1"):
            story.wait_for_all(WANTED, producers=2, hooked=2)
            operate(story)
        time.sleep(READING_S)
    written, billing = (sum(story.counts[f"{name}-{n}"] for n in (0, 1)) for name in ("shop", "billing"))
    audit = story.counts["audit-0"]
    print(f"records on new partitions: {written} written; read by billing {billing}, by audit {audit}")


def operate(story: Story) -> None:
    """Do what an operator does."""
    story.kpe(f"change plan {WANTED} --output table")
    story.kpe(f"change request {WANTED} --execute --yes --id {CHANGE} --output table")
    story.kpe(f"change wait {CHANGE} --timeout 2m --output table")


def _lines(text: str) -> list[str]:
    return [re.sub(r"\s+$", "", line) for line in text.splitlines()]


def _terminal() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "110", "NO_COLOR": "1"}


if __name__ == "__main__":
    main()
