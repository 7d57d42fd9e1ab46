"""`kpe demo growth` and `kpe demo fleet` on real brokers; `kpe demo events` is the latter's first half.

Both wait for brokers most of the time, and neither tells a time: they run at once.
"""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

KPE = [sys.executable, "-m", "kafka_partition_events.cli", "demo"]

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.weekly]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet") / "report.html"


@pytest.fixture(scope="module")
def outputs(report: Path) -> tuple[str, str]:
    """What both have printed."""
    with ThreadPoolExecutor(2) as at_once:
        growth, fleet = at_once.map(demo, (["growth"], ["fleet", "--out", str(report)]))
    return growth, fleet


def demo(words: list[str]) -> str:
    done = subprocess.run([*KPE, *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_behind_the_gate_no_record_is_missed_that_plain_growth_loses(outputs: tuple[str, str]) -> None:
    output, _ = outputs
    missed = {
        how: (int(new.replace(",", "")), int(lost.replace(",", "")))
        for how, new, lost in re.findall(
            r"^(kafka-topics|kpe change).*? +([\d,]+) +([\d,]+) *$", output, re.MULTILINE
        )
    }
    assert set(missed) == {"kafka-topics", "kpe change"}, output
    new, lost = missed["kafka-topics"]
    assert 0 < lost < new, output
    new, lost = missed["kpe change"]
    assert lost == 0 < new, output
    assert "gate open, by evidence" in output


def test_spark_makes_the_report_of_what_was_told(outputs: tuple[str, str], report: Path) -> None:
    _, output = outputs
    for event in (
        "partitions_added",
        "cap_reached",
        "partition_offline",
        "partition_online",
        "topic_recreated",
    ):
        assert re.search(rf"{event} +\S+ ", output), event
    assert re.search(r"kpe\.events: Spark took in ([\d,]+) read, \1 good", output)
    text = report.read_text(encoding="utf-8")
    for said in (
        "grew 6 → 12 partitions",
        "re-created, 6 → 3 partitions",
        "cap reached, 9 of 12 used",
        "joined",
    ):
        assert said in text, said
    assert "http" not in text, "it asks nobody for anything"
