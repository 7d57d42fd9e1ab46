"""What is heard and shown while it is played."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from kafka_partition_events.demo.plan import CAST, SCENES
from kafka_partition_events.demo.progress import DemoProgress
from kafka_partition_events.demo.screen import DemoScreen
from kafka_partition_events.demo.story import METADATA, Notice
from kafka_partition_events.demo.tape import Tape
from kafka_partition_events.demo.witness import Said
from kafka_partition_events.testing.cluster.broker_probe import BrokerView, ProbedPartition

EVERYBODY = frozenset(range(1, 7))
FINE = Said(EVERYBODY, 0)


@pytest.fixture
def progress() -> DemoProgress:
    return DemoProgress()


def test_metadata_is_a_witness(progress: DemoProgress) -> None:
    gone = Said(EVERYBODY - {5}, 2)
    with progress.playing(SCENES[2]):
        progress.testified(7, FINE, gone)
        progress.testified(8, gone, FINE)
    assert progress.marks == [Notice(who=METADATA, broker=5, at_ns=7)]
    assert progress.worst == (0, 6), "nothing of the brown-out"


def test_what_metadata_admits_in_the_brown_out_is_kept(progress: DemoProgress) -> None:
    with progress.playing(SCENES[1]):
        progress.testified(7, FINE, Said(EVERYBODY - {2}, 3))
        progress.testified(8, FINE, FINE)
    assert progress.worst == (3, 5)


def test_a_partition_is_offline_if_no_listed_broker_leads_it() -> None:
    led = {n: ProbedPartition(leader, (1, 2, 3), (1, 2, 3)) for n, leader in enumerate((1, 2, -1, 9))}
    said = Said.of(BrokerView(frozenset({1, 2, 3}), {"orders": led}))
    assert said == Said(frozenset({1, 2, 3}), 2)


def test_a_deed_and_what_comes_of_it_are_lines_of_their_scene(progress: DemoProgress, tmp_path: Path) -> None:
    out = io.StringIO()
    Tape.create(tmp_path / "x.tape", 20)
    ours: Any = {"kind": "suspected", "broker": 2, "at": 7, "why": "silent"}
    console = Console(file=out, width=200)
    with Tape(tmp_path / "x.tape") as tape, DemoScreen(console, progress, CAST) as screen:
        load: Any = SimpleNamespace(part=CAST[2], tape=tape)
        with screen.showing([load]), progress.playing(SCENES[1]) as began:
            tape.send(0)
            progress.did(2, "kill -STOP broker 2")
            progress.heard(CAST[2], ours)
    (played,) = progress.scenes
    assert played.broker == 2
    assert began <= progress.deeds[0][1] <= played.end_ns
    told = [line.split(" s  ", 1)[1].strip() for line in out.getvalue().splitlines()]
    assert told[3].startswith("== scene 2 of 5: broker 2 stalls")
    deed, what_comes_of_it = (line.split(" s  ", 1)[1] for line in told[4:6])
    assert deed == "kill -STOP broker 2"
    assert what_comes_of_it == "ours: avoids broker 2, which does not answer"
