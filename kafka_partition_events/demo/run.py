"""The demo from beginning to end."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen
from rich.console import Console

from kafka_partition_events.demo.account import show_accounts
from kafka_partition_events.demo.display import Display, open_display
from kafka_partition_events.demo.ledger import Reconciliation, TopicLedger, Totals, reconcile
from kafka_partition_events.demo.report import Played, starting_spark, write_report
from kafka_partition_events.demo.scenario import (
    EVENTS,
    ORDERS,
    ORDERS_CAP,
    PAYMENTS,
    RETURNS,
    Scenario,
    create_topics,
)
from kafka_partition_events.demo.stage import Stage, open_stage
from kafka_partition_events.demo.stored import Arrivals, read_topic
from kafka_partition_events.demo.traffic import Traffic
from kafka_partition_events.demo.watcher import open_watcher
from kafka_partition_events.demo.writers import DELIVERY_LIMIT_MS, ConfluentWriter, KafkaPythonWriter
from kafka_partition_events.jvm import java
from kafka_partition_events.metadata.events import Event
from kafka_partition_events.routing.budget import BufferBudget

_FINISH_S = DELIVERY_LIMIT_MS / 1000 + 10.0

_NOTE = (
    f"Made by `kpe demo`. {RETURNS} was deleted and created anew on the way, so what it held before is gone; "
    "the producers went on writing all the time."
)


@frozen(kw_only=True)
class Demo:
    """What the user can choose.

    Attributes:
        out: Where the report goes.
        rate: Records per second of each producer.
        stretch: Seconds of one quiet stretch between two troubles.
        mock: Play on the mock cluster even where there is Java.
    """

    out: Path
    rate: float = 250.0
    stretch: float = 6.0
    mock: bool = False


def run_demo(demo: Demo, console: Console) -> bool:
    """Play the demo, write the report and show the accounts.

    Returns:
        Whether everything that was acknowledged is in its topic, apart from the deleted one.

    Raises:
        CliError: a part of it failed.
        KafkaPartitionEventsError: the cluster did, or the jars that it needs could not be had.
    """
    mock = demo.mock or java() is None
    if mock:
        why = "as asked" if java() else "no Java 17 or newer found"
        console.print(
            f"{why}: the demo runs on librdkafka's mock cluster, without Spark, growth and a report",
            soft_wrap=True,
        )
    began = time.monotonic()
    ledgers = {topic: TopicLedger() for topic in (ORDERS, RETURNS, PAYMENTS)}
    with open_display(console, lambda: _counts(ledgers)) as display:
        display.phase("a cluster starts")
        with open_stage(mock=mock, progress=display.line) as stage:
            display.line(f"{stage.name}: {stage.bootstrap_servers}")
            seen, remarks = _play(demo, stage, ledgers, display)
            # The producers are done: from here on Spark may have the processors, and starts meanwhile.
            with starting_spark() if stage.real else contextlib.nullcontext() as spark:
                display.phase("the topics are counted")
                played = _counted(stage, ledgers, seen)
                if spark is not None:
                    display.phase(f"Spark makes tables of {EVENTS}, then writes {demo.out}")
                    remarks.append(write_report(spark.result(), stage.bootstrap_servers, played, demo.out))
    show_accounts(console, played.accounts, ledgers, remarks)
    if not mock:
        console.print(f"report: {demo.out.resolve()}", soft_wrap=True)
    console.print(f"took {time.monotonic() - began:.0f} s", soft_wrap=True)
    return all(account.agrees for account in played.accounts)


def _counts(ledgers: dict[str, TopicLedger]) -> list[tuple[str, Totals]]:
    return [
        (ConfluentWriter.name, ledgers[ORDERS].totals + ledgers[RETURNS].totals),
        (KafkaPythonWriter.name, ledgers[PAYMENTS].totals),
    ]


def _play(
    demo: Demo, stage: Stage, ledgers: dict[str, TopicLedger], display: Display
) -> tuple[list[Event], list[str]]:
    """Return what was seen to happen, and remarks."""
    create_topics(stage)
    remarks: list[str] = []
    with (
        open_watcher(stage.bootstrap_servers, display) as watcher,
        _traffic(demo, stage, ledgers) as traffics,
    ):
        for traffic in traffics:
            watcher.follow_caps_of(traffic.writer.poller)
            traffic.start()
        scenario = Scenario(stage, traffics, display, demo.stretch)
        scenario.play()
        display.phase("the producers finish")
        for traffic in traffics:
            traffic.stop()
        for traffic in traffics:
            traffic.writer.finish(_FINISH_S)
        remarks.append(watcher.finish())
        remarks += [f"{t.writer.name}: {told}" for t in traffics if (told := t.writer.own_counters())]
    if scenario.returns_counted is not None:
        remarks.append(
            f"{RETURNS}: held {scenario.returns_counted:,} records just before it was deleted, "
            "which happened under full traffic"
        )
    return watcher.seen, remarks


def _counted(stage: Stage, ledgers: dict[str, TopicLedger], seen: list[Event]) -> Played:
    accounts: list[Reconciliation] = []
    arrivals: dict[str, Arrivals] = {}
    for topic, ledger in ledgers.items():
        writer = KafkaPythonWriter.name if topic == PAYMENTS else ConfluentWriter.name
        found, arrivals[topic] = read_topic(stage.bootstrap_servers, topic)
        accounts.append(reconcile(topic, writer, ledger, found, recreated=topic == RETURNS))
    return Played(accounts=accounts, arrivals=arrivals, seen=seen, note=_NOTE)


@contextlib.contextmanager
def _traffic(demo: Demo, stage: Stage, ledgers: dict[str, TopicLedger]) -> Iterator[list[Traffic]]:
    with contextlib.ExitStack() as opened:
        budget = BufferBudget(max_partitions={ORDERS: ORDERS_CAP}, instance_id="kpe-demo")
        confluent = ConfluentWriter(stage.bootstrap_servers, budget)
        opened.callback(confluent.close)
        kafka_python = KafkaPythonWriter(stage.bootstrap_servers, real=stage.real)
        opened.callback(kafka_python.close)
        traffics = [
            Traffic(confluent, (ORDERS, ORDERS, ORDERS, RETURNS), ledgers, demo.rate),
            Traffic(kafka_python, (PAYMENTS,), ledgers, demo.rate),
        ]
        for traffic in traffics:
            opened.callback(traffic.stop)
        yield traffics
