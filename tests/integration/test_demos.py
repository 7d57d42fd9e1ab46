"""`kpe demo growth` on real brokers."""

import re
import subprocess
import sys

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
