"""Killed or paused at any moment, a run leaves what the next one makes right: nothing is lost or doubled.

Before each of its writes: test_fleet_seams.py.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve
from pyspark.sql import SparkSession

from kafka_partition_events.spark.tables.state_table import StateTable
from kafka_partition_events.testing import KafkaCluster
from tests.fleet_feed import KEPT, STORY, write_feed
from tests.fleet_kit import Gold, gold_of, interpreting, tables_of

pytestmark = pytest.mark.spark

PATIENCE_S: Final = 300.0
BATCHES: Final = 3


@contextlib.contextmanager
def driver(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start ``kpe spark fleet`` in a session of its own, and kill what is left of it in the end."""
    program = "import sys; from kafka_partition_events.cli import main; main()"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "spark", "fleet", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=interpreting(log.with_name("conf")),
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver and its JVM in one moment."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def wait_for_file(out: Path, pattern: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the process writes one more."""
    before, deadline = {*out.glob(pattern)}, time.monotonic() + PATIENCE_S
    while not {*out.glob(pattern)} - before:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.002)


@pytest.mark.weekly  # at random; each write by itself: test_fleet_seams.py
@pytest.mark.kafka
def test_gold_after_kills_and_a_pause_is_what_the_batch_computation_makes_of_all(
    spark: SparkSession, kafka_cluster: KafkaCluster, gold_of_the_story: Gold, tmp_path: Path
) -> None:
    topic = "kpe.events-killed"
    kafka_cluster.create_topic(topic, partitions=3, config=KEPT)
    write_feed(kafka_cluster.bootstrap_servers, topic, STORY.records)
    out, log = tmp_path / "out", tmp_path / "log"
    arguments = (
        "-b", kafka_cluster.bootstrap_servers, "--events-topic", topic, "--out", str(out), "--once",
        "--max-per-batch", str(len(STORY.records) // BATCHES + 1),
    )  # fmt: skip
    # While a batch is written, and while gold is; how far they are then is left to chance.
    for files in ("bronze/records/day=*/*.parquet", "gold/*/day=*/**/*.parquet"):
        with driver(log, *arguments) as process:
            wait_for_file(out, files, process, log)
            time.sleep(random.uniform(0, 1))
            kill(process)
    # One that is paused in a refresh, and goes on when another one has done all.
    with driver(log, *arguments) as frozen:
        wait_for_file(out, "gold/*/day=*/**/*.parquet", frozen, log)
        os.killpg(frozen.pid, signal.SIGSTOP)
        with driver(log, *arguments) as process:
            assert process.wait(PATIENCE_S) == 0, log.read_text()
        os.killpg(frozen.pid, signal.SIGCONT)
        assert frozen.wait(PATIENCE_S) == 2, log.read_text()
    assert "another kpe spark fleet" in log.read_text()

    tables = tables_of(spark, out)
    mark = StateTable(tables).read().mark
    assert evolve(mark.totals, doubles=0) == evolve(STORY.counts, doubles=0)
    records = tables.read("bronze/records")
    offsets = records.select("partition", "offset")
    assert offsets.count() == offsets.distinct().count() == len(STORY.records)
    assert records.where("defect IS NOT NULL").count() == STORY.junk + STORY.unknown
    assert gold_of(tables) == gold_of_the_story
