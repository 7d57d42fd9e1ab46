import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KPE = [sys.executable, "-m", "kafka_partition_events.cli", "demo"]
TABLE_LINE = re.compile(
    r"^ ?(\S+)? +(confluent-kafka|kafka-python|the topic) +([\d,]+(?: +[\d,]+){4})\s*$", re.MULTILINE
)


def _table(output: str) -> dict[str, tuple[list[int], list[int]]]:
    """Return for each topic what its producer counted and what is in it."""
    lines = [(topic, [int(n.replace(",", "")) for n in numbers.split()]) for topic, _, numbers in
             TABLE_LINE.findall(output)]  # fmt: skip
    return {told[0]: (told[1], found[1]) for told, found in zip(lines[::2], lines[1::2], strict=True)}


def _demo(*options: str, limit: float) -> str:
    done = subprocess.run([*KPE, *options], capture_output=True, text=True, check=False, timeout=limit)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.kafka
@pytest.mark.spark
def test_the_demo_accounts_for_every_record_and_writes_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    output = _demo("--stretch", "2s", "--rate", "100", "--out", str(report), limit=300)
    table = _table(output)
    assert set(table) == {"orders", "returns", "payments"}
    for topic in ("orders", "payments"):
        (sent, acknowledged, failed, rerouted, capped), found = table[topic]
        assert sent == acknowledged + failed
        # More may be found: records that the producer gave up on a moment too early.
        given_up = re.search(rf"{topic}: ([\d,]+) records? given up by the producer", output)
        extra = int(given_up[1].replace(",", "")) if given_up else 0
        assert found[1] == acknowledged + extra
        if not extra:
            assert found[3:] == [rerouted, capped]
        assert rerouted > 0
    assert table["orders"][0][4] > 0, "nothing was capped"
    for event in (
        "partitions_added",
        "cap_reached",
        "partition_offline",
        "partition_online",
        "topic_recreated",
    ):
        assert re.search(rf"{event} +\S+ ", output), event
    assert re.search(r"kpe\.events: [\d,]+ events published, 0 lost", output)
    text = report.read_text(encoding="utf-8")
    for mentioned in (
        "partitions went offline and came back. Every acknowledged record is in its topic",
        "The promise of 99.9% was broken.", "grew 6 → 12 partitions", "re-created, 6 → 3 partitions",
        "cap reached, 9 of 12 used", "broker 2<td>joined", "What became of the records", "payments",
    ):  # fmt: skip
        assert mentioned in text, mentioned
    assert "http" not in text, "it asks nobody for anything"
    assert re.search(r"kpe\.events: Spark took in ([\d,]+) read, \1 good", output)


def test_the_demo_runs_on_the_mock_cluster_without_java(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    # Without a PATH there is no Java to be found.
    done = subprocess.run(
        [*KPE, "--stretch", "500ms", "--rate", "100"],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
        env={**environment, "PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no Java 17 or newer found" in done.stdout.splitlines()[0]
    assert "skipped: the mock cluster can't grow orders" in done.stdout
    table = _table(done.stdout)
    for topic in ("orders", "payments"):
        assert table[topic][0] == table[topic][1]


def test_ctrl_c_stops_the_demo_at_once() -> None:
    demo = subprocess.Popen(
        [*KPE, "--mock", "--stretch", "60s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert demo.stdout is not None
    try:
        while "all is well" not in demo.stdout.readline():
            assert demo.poll() is None
        began = time.monotonic()
        demo.send_signal(signal.SIGINT)
        _, complaint = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.wait()
    assert demo.returncode == 130
    assert complaint.strip().splitlines()[-1] == "kpe: interrupted"
    assert time.monotonic() - began < 30
