"""What is shown while it is played."""

from pathlib import Path

import pytest
from attrs import define

from kafka_partition_events.demo.board import Board
from kafka_partition_events.demo.loads import Load
from kafka_partition_events.demo.plan import CAST, REAL, SCENES, Part
from kafka_partition_events.demo.progress import Progress
from kafka_partition_events.demo.story import METADATA
from kafka_partition_events.demo.tape import Tape
from kafka_partition_events.demo.witness import Said
from kafka_partition_events.testing.broker_probe import BrokerView, ProbedPartition

EVERYBODY = frozenset(range(1, 7))
FINE = Said(EVERYBODY, 0)


@define
class FakeLoad:
    part: Part
    tape: Tape


def board(tmp_path: Path, progress: Progress) -> Board:
    """Return a board on which each producer has sent ten records, and has answers to all but the last."""
    made = Board(progress, 75.0)
    loads: list[Load] = []
    for part in CAST:
        file = tmp_path / part.key
        Tape.create(file, 20)
        tape = Tape(file)
        for number in range(10):
            tape.send(number)
            if number < 9:
                tape.report(number, 1, delivered=True)
        loads.append(FakeLoad(part, tape))  # type: ignore[arg-type]
    made.loads = loads
    return made


@pytest.fixture
def progress() -> Progress:
    return Progress(REAL)


# -- what others say ---------------------------------------------------------------------------------------


def test_metadata_is_a_witness(progress: Progress) -> None:
    gone = Said(EVERYBODY - {5}, 2)
    with progress.playing(SCENES[2]):
        progress.testified(7, FINE, gone)
        progress.testified(8, gone, FINE)
    assert [(mark.who, mark.kind, mark.broker, mark.at_ns) for mark in progress.marks] == [
        (METADATA, "gone", 5, 7), (METADATA, "listed", 5, 8),
    ]  # fmt: skip
    assert progress.worst == (0, 6), "nothing of the brown-out"


def test_what_metadata_admits_in_the_brown_out_is_kept(progress: Progress) -> None:
    with progress.playing(SCENES[1]):
        progress.testified(7, FINE, Said(EVERYBODY - {2}, 3))
        progress.testified(8, FINE, FINE)
    assert progress.worst == (3, 5)


def test_a_partition_is_offline_if_no_listed_broker_leads_it() -> None:
    led = {n: ProbedPartition(leader, (1, 2, 3), (1, 2, 3)) for n, leader in enumerate((1, 2, -1, 9))}
    said = Said.of(BrokerView(frozenset({1, 2, 3}), {"orders": led}))
    assert said == Said(frozenset({1, 2, 3}), 2)
    assert said.in_words(6) == "3 of 6 brokers, 2 partitions offline"


def test_deeds_have_a_beginning_and_an_end(progress: Progress) -> None:
    with progress.playing(SCENES[1]), progress.doing_to(2, "frozen"):
        assert progress.doing[2][0] == "frozen"
    (deed,) = progress.deeds
    (played,) = progress.scenes
    assert played.begin_ns <= deed.begin_ns <= deed.end_ns <= played.end_ns
    assert played.title == "broker 2 stalls 0.4 s of each 0.5 s"
    assert not progress.doing
