"""The Spark benchmarks' pure parts: turns, CPU time, and what the rows say."""

import json
import os
import random
from functools import partial

import pytest

from benchmarks.measure import Spread
from benchmarks.spark import __main__ as command
from benchmarks.spark import fleet, fleet_story
from benchmarks.spark.partition_column import JVM, KAFKA_PYTHON, SCAN, rows_of
from benchmarks.spark.rounds import Sample, cpu_by_process, one_round, rate_ratio, rates, sample

ROUNDS = [
    {
        SCAN: Sample(cpu_s=0.5, wall_s=0.3),
        JVM: Sample(cpu_s=1.0, wall_s=0.6),
        KAFKA_PYTHON: Sample(cpu_s=4.0, wall_s=2.2),
    },
    {
        SCAN: Sample(cpu_s=0.5, wall_s=0.3),
        JVM: Sample(cpu_s=2.0, wall_s=1.1),
        KAFKA_PYTHON: Sample(cpu_s=4.0, wall_s=2.2),
    },
]
KEYS = {SCAN: 8_000_000, JVM: 8_000_000, KAFKA_PYTHON: 400_000}


def test_rates_are_by_cpu_second_and_ratios_round_by_round() -> None:
    assert rates(ROUNDS, JVM, 8.0) == Spread(4.0, 6.0, 8.0)
    assert rate_ratio(ROUNDS, (JVM, KEYS[JVM]), (KAFKA_PYTHON, KEYS[KAFKA_PYTHON])) == Spread(
        40.0, 60.0, 80.0
    )


def test_the_promises_are_judged() -> None:
    rows = list(rows_of(ROUNDS, KEYS))
    judged = [(row.what, row.peer[0] if row.peer else None, row.kept) for row in rows if row.target]
    assert judged == [
        (f"user ids: {JVM}", None, True),
    ]
    assert len(rows) == 3  # no pandas, so no rows beside it


def took(factor: float) -> fleet.Took:
    return fleet.Took(
        wall_s=factor,
        refresh_s=factor / 2,
        cpu_s=2 * factor,
        refreshes=10,
        shuffled_bytes=int(1000 * factor),
        out_bytes=int(4000 * factor),
    )


def test_both_forms_are_judged_by_ten_times_the_input_and_what_that_costs() -> None:
    size = fleet.Size(
        cases=[
            fleet.Case(name="packed", transitions=10_000, packed=True),
            fleet.Case(name="packed, 10x", transitions=100_000, packed=True),
            fleet.Case(name="single", transitions=10_000, packed=False),
            fleet.Case(name="single, 10x", transitions=100_000, packed=False),
        ]
    )
    transitions = {case.name: case.transitions for case in size.cases}
    runs = {case.name: [took(case.transitions / 50_000)] * 2 for case in size.cases}
    rows = {row.what: row for row in fleet.rows_of(size, transitions, runs)}
    assert [(row.what, row.kept) for row in rows.values() if row.target] == [
        ("packed, 10x: end to end", True),
        ("packed, 10x: CPU, as often as of packed, for 10.0 times the input", True),
        ("single, 10x: end to end", True),
        ("single, 10x: CPU, as often as of single, for 10.0 times the input", True),
    ]
    assert rows["packed, 10x: end to end"].ours == Spread(50_000.0, 50_000.0, 50_000.0)
    assert rows["packed: a refresh"].ours == Spread(0.01, 0.01, 0.01)


@pytest.mark.parametrize("packed", [False, True])
def test_the_story_is_told_twice_with_bad_and_late_records_in_order(packed: bool) -> None:
    told = list(fleet_story.records(400, 4_000, packed=packed))
    good = [json.loads(one.value) for one in told if one.transitions]
    assert sum(one.transitions for one in told) >= 4_000
    assert len(good) < len(told)
    assert [one.at for one in told] == sorted(one.at for one in told)
    assert {one["data"]["cluster_id"] for one in good} == set(fleet_story.CLUSTERS)
    ids = [
        each["id"]
        for one in good
        for each in one["data"].get("changes", [one])
        if ".partition.o" in one["type"]  # those of in-sync sets are each observer's own
    ]
    assert len(set(ids)) == pytest.approx(len(ids) / 2, rel=0.01)
    assert any(".v2" in one["type"] for one in good) is packed


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
