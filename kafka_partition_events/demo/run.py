"""`kpe demo` from beginning to end."""

import os
import platform
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from attrs import frozen
from rich.console import Console

from kafka_partition_events import __version__
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.demo import plan
from kafka_partition_events.demo.account import reconcile
from kafka_partition_events.demo.key_order import ReadOrder
from kafka_partition_events.demo.loads import Load, open_loads
from kafka_partition_events.demo.page import render
from kafka_partition_events.demo.plan import ASYNCIO, CAST, PARTITIONS
from kafka_partition_events.demo.play import Play
from kafka_partition_events.demo.progress import DemoProgress
from kafka_partition_events.demo.screen import DemoScreen
from kafka_partition_events.demo.stored import read_in_order, read_numbers
from kafka_partition_events.demo.story import Performance, Story
from kafka_partition_events.demo.verdict import show_verdict
from kafka_partition_events.demo.witness import open_witness
from kafka_partition_events.jvm import kafka_lock
from kafka_partition_events.testing import KafkaCluster

_ROOM_S = 120.0
"""For how much longer than planned a producer may go on writing."""


@frozen(kw_only=True)
class Demo:
    """What the user can choose.

    Attributes:
        out: Where the page goes.
        rate: Records per second of each producer.
        seconds: How long all scenes take together.
        asyncio: Whether producers for asyncio take part.
    """

    out: Path
    rate: int = 250
    seconds: float = 40.0
    asyncio: bool = False

    @property
    def cast(self) -> Sequence[plan.Part]:
        """Who takes part."""
        return ASYNCIO if self.asyncio else CAST


def run_demo(demo: Demo, console: Console) -> bool:
    """Play it, write the page, show the verdict.

    Returns:
        Whether what callbacks said is what the topics hold, record by record, and keys are in their order.

    Raises:
        CliError: a part of it failed.
        KafkaPartitionEventsError: the cluster did, or its jars could not be had.
    """
    if (available := available_mib()) < plan.MEMORY_MIB:
        raise CliError(
            f"the brokers need {plan.MEMORY_MIB:,} MiB of memory, and {available:,} are available: end other "
            "programs, or run it elsewhere"
        )
    began = datetime.now(UTC)
    progress = DemoProgress()
    clients = ("aiokafka" if demo.asyncio else "kafka-python", "confluent-kafka")
    with DemoScreen(console, progress, demo.cast) as screen:
        story, rate = _play(demo, progress, screen)
    settings = {
        "Brokers": f"Apache Kafka {kafka_lock().removeprefix('kafka-')}, {plan.BROKERS_IN_WORDS}, "
        f"{PARTITIONS} partitions, broker session {plan.SESSION_MS / 1000:.0f} s",
        "Producers": f"a process each; {rate} records/s of {plan.VALUE_BYTES} B, linger "
        f"{plan.LINGER_MS} ms, delivery limit {plan.DELIVERY_LIMIT_MS / 1000:.0f} s; else the defaults",
        "Clients": ", ".join(f"{name} {metadata.version(name)}" for name in clients),
        "Machine": f"{os.cpu_count()} cores for brokers and producers together, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}",
        "This library": f"kafka-partition-events {__version__}",
        "Run": f"{began:%Y-%m-%d %H:%M} UTC; the same again: kpe demo --rate {rate} "
        f"--seconds {demo.seconds:.0f}s{' --asyncio' if demo.asyncio else ''}",
    }
    demo.out.write_text(render(story, settings), encoding="utf-8")
    show_verdict(console, story, str(demo.out))
    return story.adds_up and story.key_order.holds


def _play(demo: Demo, progress: DemoProgress, screen: DemoScreen) -> tuple[Story, int]:
    with (
        tempfile.TemporaryDirectory(prefix="kpe-demo-") as scratch,
        KafkaCluster(plan.BROKERS, session_timeout_ms=plan.SESSION_MS, progress=screen.line) as cluster,
    ):
        bootstrap = cluster.bootstrap_servers
        placed = plan.placement(plan.BROKERS, PARTITIONS, plan.REPLICATION)
        for part in demo.cast:
            config = {"min.insync.replicas": str(plan.MIN_INSYNC)}
            cluster.create_topic(part.topic, config=config, assignment=placed)
        screen.line(f"{len(demo.cast)} topics of {PARTITIONS} partitions; the producers connect")
        records = round(demo.rate * (demo.seconds + _ROOM_S))
        with (
            open_loads(demo.cast, bootstrap, records, Path(scratch), progress.heard) as loads,
            open_witness(bootstrap.split(",")[0], progress.testified),
        ):
            for load in loads:
                load.await_ready()
            with screen.showing(loads):
                play = Play(cluster, loads, progress, demo.seconds, demo.rate)
                play.run()
            end_ns = time.monotonic_ns()
            progress.note("the topics are read back")
            performances = _accounted(loads, bootstrap)
            key_order = _key_order(performances[-1], bootstrap)
            progress.note(f"{demo.cast[-1].title}, by an OrderedConsumer: {key_order.in_words}", "ours")
    offline, listed = progress.worst
    story = Story(
        scenes=progress.scenes,
        deeds=progress.deeds,
        marks=sorted(progress.marks, key=lambda mark: mark.at_ns),
        performances=performances,
        end_ns=end_ns,
        most_offline=offline,
        fewest_listed=listed,
        key_order=key_order,
    )
    return story, play.rate


def _accounted(loads: Sequence[Load], bootstrap: str) -> list[Performance]:
    def accounted(load: Load) -> Performance:
        rows = list(load.tape.rows())
        stored = read_numbers(bootstrap, load.part.topic, PARTITIONS)
        account = reconcile(rows, stored, must_answer=load.part.ours)
        return Performance(part=load.part, rows=rows, causes=load.causes, account=account)

    with ThreadPoolExecutor(len(loads)) as readers:
        return list(readers.map(accounted, loads))


def _key_order(moved: Performance, bootstrap: str) -> ReadOrder:
    handed = read_in_order(bootstrap, moved.part.topic, PARTITIONS)
    return ReadOrder.of(handed, moved.rows)


def available_mib() -> int:
    """Return how much memory programs can have; where the system does not say, half of all."""
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**21
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return half
    found = (int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:"))
    return next(found, half)
