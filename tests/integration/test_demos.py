"""`kpe demo growth`, `kpe demo events` and `kpe demo fleet` on real brokers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

KPE = [sys.executable, "-m", "kafka_partition_events.cli", "demo"]

pytestmark = [pytest.mark.kafka, pytest.mark.weekly]


def demo(*words: str) -> str:
    """What it has printed; it must end well, and complain of nothing."""
    done = subprocess.run([*KPE, *words], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout


def rows(output: str, name: str) -> dict[str, list[int]]:
    """The lines of a table that begin with a name and end in numbers, without their commas."""
    found = re.findall(rf"^((?:{name}).*?)((?: +[\d,]+)+) *$", output, re.MULTILINE)
    return {row: [int(number.replace(",", "")) for number in numbers.split()] for row, numbers in found}


def test_with_the_gate_no_record_is_skipped_and_plain_growth_skips_some() -> None:
    output = demo("growth")
    found = rows(output, "kafka-topics|kpe change")
    assert list(found) == ["kafka-topics --alter", "kpe change, with a gate"], output
    new, skipped = found["kafka-topics --alter"]
    assert 0 < skipped < new, output
    new, skipped = found["kpe change, with a gate"]
    assert skipped == 0 < new, output
    assert "gate open, by evidence" in output
    assert "did not hold the gate" not in output
    assert "Verdict: plain growth skipped records, growth with a gate none." in output


def test_the_topic_and_the_webhook_receive_every_event_that_is_shown() -> None:
    output = demo("events")
    found = rows(output, r"[a-z]+\.[a-z]+|all")
    assert found.keys() >= {
        "partitions.added", "cap.reached", "broker.left", "broker.joined", "partition.offline",
        "partition.online", "topic.recreated", "all",
    }, output  # fmt: skip
    assert all(screen == topic == webhook > 0 for screen, topic, webhook in found.values()), output
    assert found["partition.offline"] == found["partition.online"], output
    shown = re.findall(r"^ *[\d.]+ s {4}[a-z]+_[a-z]+ +\S", output, re.MULTILINE)
    assert len(shown) == found["all"][0], output


@pytest.mark.spark
def test_spark_makes_a_report_of_every_event(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    output = demo("fleet", "--out", str(page))
    assert re.search(r"kpe\.events: Spark took in ([\d,]+) read, \1 good", output), output
    assert re.search(r"Outages of partitions: ([1-9]\d*) in the report, \1 were shown", output), output
    assert "Verdict: the report has every event and every outage." in output
    text = page.read_text(encoding="utf-8")
    for said in (
        "grew 6 → 12 partitions",
        "re-created, 6 → 3 partitions",
        "cap reached, 9 of 12 used",
        "joined",
    ):
        assert said in text, said
    assert "http" not in text, "it asks nobody for anything"
