"""`kpe demo growth`: two topics grow, one plainly, one by `kpe change`. Which records does no one read?"""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen
from rich.console import Console
from rich.table import Table

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.demo.lines import Lines
from kafka_partition_events.demo.worker import END_LIMIT_S, Worker
from kafka_partition_events.testing import KafkaCluster

PLAIN, GATED = "orders-plain", "orders-gated"
BEFORE, AFTER = 6, 12
_RATE: Final = 100
_PRODUCERS_POLL_S: Final = 0.5
_CONSUMERS_POLL_S: Final = 10.0
"""How often clients poll metadata, and so find new partitions. Kafka's default is 300 s, for both."""

_TRACKER: Final = "tracker --listen 127.0.0.1:0"
_CHANGE: Final = "orders-to-12"
_COMMAND_LIMIT_S: Final = 180.0
_FLOW_LIMIT_S: Final = 60.0
_FIRST_RECORDS: Final = 20


class Writer(Worker):
    """Writes numbered records without keys; at its end it waits for what is outstanding."""

    def __init__(self, producer: Any, topic: str) -> None:
        """Begin."""
        self.acknowledged: dict[int, int] = {}
        """Number -> partition."""
        self._producer = producer
        self._topic = topic
        super().__init__(f"writer-{topic}")

    def _run(self) -> None:
        began, number = time.monotonic(), 0
        while not self._over.is_set():
            self._producer.produce(self._topic, b"%d" % number, on_delivery=self._delivered)
            number += 1
            while (early := began + number / _RATE - time.monotonic()) > 0:
                self._producer.poll(early)
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[int(message.value())] = message.partition()

    def stop(self) -> None:
        """Write no more, and wait for what is outstanding."""
        super().stop()
        self._producer.flush(END_LIMIT_S)


class Reader(Worker):
    """Reads as a group's only member."""

    def __init__(self, consumer: Any) -> None:
        """Begin."""
        self.read: set[int] = set()
        self._consumer = consumer
        super().__init__("reader")

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                message = self._consumer.poll(0.2)
                if message is not None and message.error() is None:
                    self.read.add(int(message.value()))
        finally:
            self._consumer.close()


@frozen
class Side:
    """A topic, who writes it and who reads it."""

    topic: str
    writer: Writer
    reader: Reader

    @property
    def new(self) -> set[int]:
        """The records on new partitions that the producer was told are written."""
        return {number for number, at in self.writer.acknowledged.copy().items() if at >= BEFORE}

    @property
    def missed(self) -> int:
        """How many of them no one has read."""
        return len(self.new - self.reader.read)

    def check(self) -> None:
        """Raise CliError if a client has ended by itself."""
        for who, error in (("producer", self.writer.error), ("consumer", self.reader.error)):
            if error is not None:
                raise CliError(f"the {who} of {self.topic} has ended: {error!r}")


def run_growth(console: Console) -> bool:
    """Play it, and show what was read.

    Returns:
        Whether records were missed where the topic grew plainly, and none behind the gate.

    Raises:
        CliError: a part of it failed.
        KafkaPartitionEventsError: the cluster did, or its jars could not be had.
    """
    lines = Lines(console)
    lines.write("== three brokers start")
    with KafkaCluster(3) as cluster, contextlib.ExitStack() as opened:
        bootstrap = cluster.bootstrap_servers
        for topic in (PLAIN, GATED):
            cluster.create_topic(topic, BEFORE)
        _kpe(lines, bootstrap, "tracker init", shown=False)
        lines.write(f"$ kpe {_TRACKER} &")
        tracker = opened.enter_context(_tracker(bootstrap))
        sides = [opened.enter_context(side) for side in (_plain(bootstrap), _gated(bootstrap))]
        _await_flow(sides)
        lines.write("== records flow; each topic has a group with auto.offset.reset=latest")
        if tracker.poll() is not None:
            raise CliError(f"kpe {_TRACKER} has ended with {tracker.returncode}")
        held = _grow(cluster, bootstrap, lines)
        _rest(lines, sides)
    return _show(console, sides, held)


def _grow(cluster: KafkaCluster, bootstrap: str, lines: Lines) -> bool:
    """Let both grow; return whether each producer of the one with the gate was known to hold it."""
    lines.write(f"$ kafka-topics --alter --topic {PLAIN} --partitions {AFTER}")
    cluster.grow_topic(PLAIN, AFTER)
    gate = "--gate --execute --yes"
    _kpe(lines, bootstrap, f"change request --topic {GATED} --to {AFTER} {gate} --id {_CHANGE}")
    lines.write("== the topic grows when its producer holds the gate: producers read kpe.changes every 30 s")
    return "did not hold the gate" not in _kpe(lines, bootstrap, f"change wait {_CHANGE} --timeout 2m")


def _rest(lines: Lines, sides: list[Side]) -> None:
    """Write on for a while, then let the groups read to the end."""
    lines.write("== records flow on, and the groups read to the end")
    time.sleep(_CONSUMERS_POLL_S / 2)
    for side in sides:
        side.writer.stop()
    deadline = time.monotonic() + _CONSUMERS_POLL_S
    while sides[1].missed and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1.0)
    for side in sides:
        side.check()


def _show(console: Console, sides: list[Side], held: bool) -> bool:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in (f"{BEFORE} -> {AFTER} partitions by", "records on new partitions", "never read"):
        table.add_column(name, justify="right" if table.columns else "left")
    for side, how in zip(sides, ("kafka-topics --alter", "kpe change, with a gate"), strict=True):
        table.add_row(how, f"{len(side.new):,}", f"{side.missed:,}", style="red" if side.missed else "green")
    console.print()
    console.print(table)
    console.print(
        "\nauto.offset.reset=latest: a group begins a new partition at its end, and skips what was written "
        f"before it found it.\nHere groups poll metadata every {_CONSUMERS_POLL_S:.0f} s (Kafka's default: 5 "
        f"min), producers every {_PRODUCERS_POLL_S} s. With the gate, producers wait until each\ngroup has "
        "committed an offset for the new partitions.\n",
        soft_wrap=True,
    )
    plain, gated = sides
    good, finding = verdict(plain.missed, len(gated.new), gated.missed, held=held)
    console.print(f"Verdict: {finding}.", style="green" if good else "red")
    console.print(
        f"on your cluster   kpe change plan -b HOST:9092 --topic TOPIC --to {AFTER}   (it only reads)",
        soft_wrap=True,
    )
    return good


def verdict(plain_missed: int, gated_new: int, gated_missed: int, *, held: bool) -> tuple[bool, str]:
    """Return whether both did what they are known for, and what was found, in words."""
    if not held or not gated_new or gated_missed:
        return False, "growth with a gate did NOT keep its promise"
    if not plain_missed:
        return False, "nothing was skipped by either: the group happened to poll first. Run it again"
    return True, "plain growth skipped records, growth with a gate none"


# -- clients -----------------------------------------------------------------------------------------------


def _consumer(bootstrap: str, group: str) -> Any:
    from confluent_kafka import Consumer  # noqa: PLC0415

    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "latest",
            "topic.metadata.refresh.interval.ms": round(1_000 * _CONSUMERS_POLL_S),
            "log_level": 2,
        }
    )


@contextlib.contextmanager
def _plain(bootstrap: str) -> Iterator[Side]:
    from confluent_kafka import Producer  # noqa: PLC0415

    polls = {"topic.metadata.refresh.interval.ms": round(1_000 * _PRODUCERS_POLL_S)}
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, **polls})
    consumer = _consumer(bootstrap, "billing-plain")
    consumer.subscribe([PLAIN])
    with _flowing(Side(PLAIN, Writer(producer, PLAIN), Reader(consumer))) as side:
        yield side


@contextlib.contextmanager
def _gated(bootstrap: str) -> Iterator[Side]:
    from kafka_partition_events.clients.confluent import PartitioningProducer  # noqa: PLC0415
    from kafka_partition_events.control import ConsumerAgent, ProducerAgent  # noqa: PLC0415
    from kafka_partition_events.control.agents.confluent import ControlLink, RebalanceHook  # noqa: PLC0415

    config = {"bootstrap.servers": bootstrap, "log_level": 2}
    polls = {"interval": _PRODUCERS_POLL_S}
    consumer = _consumer(bootstrap, "billing-gated")
    with (
        PartitioningProducer(config, poller_options=polls) as producer,
        ConsumerAgent(ControlLink(config), "billing-0", "billing-gated") as agent,
    ):
        RebalanceHook(agent).subscribe(consumer, [GATED])
        with _flowing(Side(GATED, Writer(producer, GATED), Reader(consumer))) as side:
            # An application makes its agent before the first record. But then its first lease names no topic,
            # and a change that is requested before the second one, up to 5 s later, does not wait for it.
            _await_flow([side])
            with ProducerAgent(producer.poller, ControlLink(config), "shop-0"):
                yield side


@contextlib.contextmanager
def _flowing(side: Side) -> Iterator[Side]:
    try:
        yield side
    finally:
        side.writer.stop()
        side.reader.stop()


def _await_flow(sides: list[Side]) -> None:
    deadline = time.monotonic() + _FLOW_LIMIT_S
    while any(len(side.reader.read) < _FIRST_RECORDS for side in sides):
        for side in sides:
            side.check()
        if time.monotonic() > deadline:
            raise CliError(f"records do not flow {_FLOW_LIMIT_S:.0f} s after the start")
        time.sleep(0.1)


# -- commands, as an operator would type them --------------------------------------------------------------


def _words(line: str, bootstrap: str) -> list[str]:
    return [sys.executable, "-m", "kafka_partition_events.cli", *line.split(), "-b", bootstrap]


def _kpe(lines: Lines, bootstrap: str, line: str, *, shown: bool = True) -> str:
    lines.write(f"$ kpe {line}")
    words = [*_words(line, bootstrap), "--output", "table"]
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603 - our own words
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - asked for
        limit = threading.Timer(_COMMAND_LIMIT_S, process.kill)
        limit.start()
        try:
            for each in map(str.rstrip, process.stdout):
                said.append(each)
                if shown:
                    lines.write(f"   {each}")
            process.wait()
        finally:
            limit.cancel()
            process.kill()  # it has ended, or the demo is interrupted
    if process.returncode:
        raise CliError(f"kpe {line} has ended with {process.returncode}: {one_line(' '.join(said[-1:]))}")
    return "\n".join(said)


@contextlib.contextmanager
def _tracker(bootstrap: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(  # noqa: S603 - our own words
        _words(_TRACKER, bootstrap), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # it keeps nothing on disk, and the cluster ends with it
