"""The Spark benchmarks' pure parts: turns, CPU time, and what the rows say."""

import os
import random
from functools import partial

import pytest

from benchmarks.measure import Spread
from benchmarks.spark import __main__ as command
from benchmarks.spark import fleet
from benchmarks.spark.partition_column import ARROW, EMPTY, JVM, KAFKA_PYTHON, SCAN, rows_of
from benchmarks.spark.rounds import Sample, cpu_by_process, one_round, rate_ratio, rates, sample

ROUNDS = [
    {
        SCAN: Sample(cpu_s=0.5, wall_s=0.3),
        JVM: Sample(cpu_s=1.0, wall_s=0.6),
        ARROW: Sample(cpu_s=2.0, wall_s=1.1),
        EMPTY: Sample(cpu_s=1.8, wall_s=1.0),
        KAFKA_PYTHON: Sample(cpu_s=4.0, wall_s=2.2),
    },
    {
        SCAN: Sample(cpu_s=0.5, wall_s=0.3),
        JVM: Sample(cpu_s=2.0, wall_s=1.1),
        ARROW: Sample(cpu_s=2.0, wall_s=1.1),
        EMPTY: Sample(cpu_s=1.6, wall_s=1.0),
        KAFKA_PYTHON: Sample(cpu_s=4.0, wall_s=2.2),
    },
]
KEYS = {SCAN: 8_000_000, JVM: 8_000_000, ARROW: 4_000_000, EMPTY: 4_000_000, KAFKA_PYTHON: 400_000}


def test_rates_are_by_cpu_second_and_ratios_round_by_round() -> None:
    assert rates(ROUNDS, JVM, 8.0) == Spread(4.0, 6.0, 8.0)
    assert rate_ratio(ROUNDS, (JVM, KEYS[JVM]), (ARROW, KEYS[ARROW])) == Spread(2.0, 3.0, 4.0)


def test_the_promises_are_judged() -> None:
    rows = list(rows_of(ROUNDS, KEYS))
    judged = [(row.what, row.peer[0] if row.peer else None, row.kept) for row in rows if row.target]
    assert judged == [
        (f"user ids: {JVM}", None, True),
        (f"user ids: {JVM}", ARROW, True),
        (f"user ids: {ARROW}", EMPTY, True),
    ]
    assert len(rows) == 6  # no pandas, so no rows beside it


def took(factor: float) -> fleet.Took:
    return fleet.Took(
        wall_s=factor,
        ingest_s=factor / 4,
        outages_s=factor / 5,
        refresh_s=factor / 2,
        cpu_s=2 * factor,
        shuffled_bytes=int(1000 * factor),
        state_bytes=int(500 * factor),
        out_bytes=int(4000 * factor),
    )


def test_the_fleet_is_judged_by_ten_times_the_events_and_each_case_stands_beside_a_smaller_one() -> None:
    size = fleet.Size(
        base=fleet.Case(name="base", events=1000, keys=10),
        more_events=fleet.Case(name="events", events=100_000, keys=10),
        more_keys=fleet.Case(name="keys", events=100_000, keys=100),
    )
    runs = {"base": [took(1.0), took(2.0)], "events": [took(1.0), took(2.0)], "keys": [took(2.0), took(4.0)]}
    rows = {row.what: row for row in fleet.rows_of(size, runs)}
    assert [(row.what, row.kept) for row in rows.values() if row.target] == [("events: end to end", True)]
    assert rows["base: end to end"].ours == Spread(500.0, 750.0, 1000.0)
    assert rows["base: end to end"].peer is None
    assert rows["events: refresh"].ratio == Spread(100.0, 100.0, 100.0)
    assert rows["events: CPU"].ours == Spread(20.0, 30.0, 40.0)
    keys = rows["keys: state"]
    assert (keys.ours, keys.unit) == (Spread(10.0, 15.0, 20.0), "bytes a partition")
    assert keys.peer == ("events", Spread(50.0, 75.0, 100.0))


def test_every_case_takes_its_turn_in_every_round() -> None:
    ran: list[str] = []
    cases = {name: partial(ran.append, name) for name in "abcd"}
    rng = random.Random(1)
    for _ in range(3):
        assert set(one_round(cases, rng, os.getpid())) == set("abcd")
    turns = [tuple(ran[begin : begin + 4]) for begin in (0, 4, 8)]
    assert all(sorted(turn) == list("abcd") for turn in turns)
    assert len(set(turns)) > 1


def test_the_cpu_time_of_a_process_is_counted() -> None:
    def work() -> None:
        before = os.times().user
        while os.times().user - before < 0.05:
            sum(range(10_000))

    found = sample(work, os.getpid())
    assert found.cpu_s > 0
    assert os.getpid() in cpu_by_process(os.getpid())
    assert os.getppid() not in cpu_by_process(os.getpid())


def test_parts_are_found_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["no-such-part"])
    assert "partition-column" in capsys.readouterr().err
