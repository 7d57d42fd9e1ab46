"""What the judge of a campaign takes for a violation: each check with good histories and bad ones."""

import ast
import random
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path

import pytest
from attrs import evolve
from confluent_kafka import murmur2

from tests.chaos import checker
from tests.chaos.history import History, Life, Run, Sample, Sent
from tests.chaos.promises import CAP, Hash
from tests.chaos.truth import State, Topic, Truth

CREATED, READ = 100.0, 900.0


def sent(
    number: int, topic: str = "orders", key: str | None = None, at: float = 200.0, **more: object
) -> Sent:
    known = {"outcomes": 1, "heard_at": at + 1, "acked": True, "partition": 0, "offset": number}
    return Sent(number, topic, key, at, **{**known, **more})  # type: ignore[arg-type]


def run_of(writer: str, *records: Sent, **more: float) -> Run:
    known = {"begun_at": 110.0, "stopped_at": 800.0, "ended_at": 810.0}
    return Run(writer, 1, {each.number: each for each in records}, **{**known, **more})


def truth_of(name: str, *counts: tuple[float, int]) -> Truth:
    states = {p: [State(CREATED, 0, 1, (1,), (1,))] for p in range(counts[-1][1])}
    return Truth({"id-1": Topic("id-1", name, CREATED, counts=list(counts), states=states)})


def history(run: Run, rows: dict[tuple[int, int], str], **more: object) -> History:
    topic = next(iter(run.sent.values())).topic
    known = {"truth": truth_of(topic, (CREATED, 6)), "calm": [(700.0, 740.0)]}
    lives = [Life(topic, CREATED, READ, rows)]
    return History([run], lives, **{**known, **more})  # type: ignore[arg-type]


def found(check: checker.Check, seen: History) -> list[str]:
    return [violation.check for violation in check(seen)]


def named(number: int, writer: str = "ours-c") -> str:
    return f"{writer}.1/{number}"


# -- records -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({(0, 0): named(0), (0, 1): named(1)}, []),
        ({(0, 0): named(0)}, ["lost"]),
        ({(0, 0): named(0), (3, 1): named(1)}, ["elsewhere"]),
    ],
)
def test_an_acknowledged_record_is_where_it_was_said_to_be(
    rows: dict[tuple[int, int], str], expected: list[str]
) -> None:
    seen = history(run_of("ours-c", sent(0), sent(1)), rows)
    assert found(checker.acknowledged_records_are_there, seen) == expected


@pytest.mark.parametrize(
    "record",
    [
        sent(0, acked=False),
        sent(0, at=CREATED - 1),  # it may have been for the topic before this one
        sent(0, at=READ, heard_at=READ + 1),  # too late for the reader
        sent(0, topic="loose"),
    ],
)
def test_what_need_not_be_there(record: Sent) -> None:
    assert found(checker.acknowledged_records_are_there, history(run_of("ours-c", record), {})) == []


def test_a_duplicate_whose_place_is_not_known_only_has_to_be_there() -> None:
    run = run_of("ours-c", sent(0, offset=-1))
    assert found(checker.acknowledged_records_are_there, history(run, {(5, 5): named(0)})) == []
    assert found(checker.acknowledged_records_are_there, history(run, {})) == ["lost"]


def test_what_nobody_sent_must_not_be_there() -> None:
    run = run_of("ours-c", sent(0, acked=False))
    assert found(checker.nothing_is_there_that_nobody_sent, history(run, {(0, 0): named(0)})) == []
    for alien in (named(7), "else", named(0, "plain-c")):
        assert found(checker.nothing_is_there_that_nobody_sent, history(run, {(0, 0): alien})) == ["invented"]


@pytest.mark.parametrize(
    ("record", "ended_at", "expected"),
    [
        (sent(0), 810.0, []),
        (sent(0, outcomes=0), inf, []),  # killed before it heard
        (sent(0, outcomes=0), 810.0, ["no outcome"]),
        (sent(0, outcomes=2), 810.0, ["outcome twice"]),
        (sent(0, heard_at=201 + checker.LATE_S), 810.0, ["late outcome"]),
    ],
)
def test_a_record_has_one_outcome(record: Sent, ended_at: float, expected: list[str]) -> None:
    seen = history(run_of("ours-c", record, ended_at=ended_at), {})
    assert found(checker.each_record_has_one_outcome, seen) == expected


def test_an_outcome_may_be_late_for_who_was_frozen() -> None:
    run = run_of("ours-c", sent(0, heard_at=201 + checker.LATE_S))
    seen = history(run, {}, frozen={"ours-c": [(210.0, 215.0)]})
    assert found(checker.each_record_has_one_outcome, seen) == []


@pytest.mark.parametrize(
    ("writer", "key", "order", "expected", "twice"),
    [
        ("keyed-c", "k", (0, 1, 2), [], 0),
        ("keyed-c", "k", (0, 2, 1), ["out of order"], 0),
        ("keyed-c", "k", (0, 1, 0, 2), [], 1),
        ("keyed-c", None, (2, 1, 0, 0), [], 1),
        ("hedge-c", "k", (0, 1, 0), [], 1),
        ("hedge-c", None, (0, 1, 0), [], 0),  # a copy
        ("ours-c", "k", (0, 2, 1, 1), [], 0),  # not idempotent
    ],
)
def test_order_and_doubles_within_a_partition(
    writer: str, key: str | None, order: tuple[int, ...], expected: list[str], twice: int
) -> None:
    run = run_of(writer, *(sent(number, key=key) for number in range(3)))
    seen = history(run, {(0, offset): named(number, writer) for offset, number in enumerate(order)})
    assert found(checker.keys_are_in_order, seen) == expected
    assert checker.written_twice(seen)[writer] == twice


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((0, 1, 2), []),
        ((0, 3, 1, 2), []),  # another key
        ((0, 2, 1), ["read out of order"]),
        ((0, 1, 0, 2), ["read twice"]),
        ((0, 2), ["not read"]),
        ((0, 4, 1, 2, 4), []),  # it has failed, and is there, twice
    ],
)
def test_keys_that_move_are_judged_as_they_are_read(order: tuple[int, ...], expected: list[str]) -> None:
    records = [sent(number, "kept", key="k") for number in range(3)]
    records += [sent(4, "kept", key="k", acked=False)] + ([sent(3, "kept", key="j")] if 3 in order else [])
    rows = {(number % 3, number): named(number, "moved-c") for number in order}
    seen = history(run_of("moved-c", *records), rows, ordered=[named(n, "moved-c") for n in order])
    assert found(checker.keys_that_move_are_read_in_order, seen) == expected
    assert not found(checker.keys_are_in_order, seen)
    assert not found(checker.keys_are_where_promised, seen)
    assert not checker.written_twice(seen)


def test_what_has_failed_may_arrive_late() -> None:
    run = run_of("keyed-c", sent(0, key="k", acked=False), sent(1, key="k"))
    seen = history(run, {(0, 0): named(1, "keyed-c"), (0, 1): named(0, "keyed-c")})
    assert found(checker.keys_are_in_order, seen) == []


@pytest.mark.parametrize("length", range(1, 30))
def test_murmur2_is_that_of_kafka(length: int) -> None:
    key = "".join(random.Random(length).choices("abcdefgh-0123456789", k=length))
    assert checker.hash_of("murmur2", key) % 997 == murmur2(key.encode(), 997)


def keys_after_growth(partition_of: Callable[[int], int], writer: str, at: float) -> Iterator[str]:
    hash_name: Hash = "murmur2" if writer.endswith("-k") else "crc32"
    names = (f"key-{n}" for n in range(100))
    key = next(each for each in names if len({checker.hash_of(hash_name, each) % n for n in (6, 7, 13)}) == 3)
    number = checker.hash_of(hash_name, key)
    topic = "kept" if writer == "kept-c" else "orders"
    run = run_of(writer, sent(0, topic, key, at))
    grown = truth_of(topic, (CREATED, 6), (300.0, 13))
    seen = history(run, {(partition_of(number), 0): named(0, writer)}, truth=grown)
    return iter(found(checker.keys_are_where_promised, seen))


@pytest.mark.parametrize("writer", ["ours-c", "ours-k", "plain-c", "kept-c"])
def test_a_key_goes_by_the_size_that_its_topic_has(writer: str) -> None:
    late = 300.0 + checker.PLAIN_STALE_S + 1
    kept = writer == "kept-c"
    assert not list(keys_after_growth(lambda number: number % 6, writer, 110.0))
    assert bool(list(keys_after_growth(lambda number: number % 6, writer, late))) is not kept
    assert bool(list(keys_after_growth(lambda number: number % 13, writer, late))) is kept
    assert list(keys_after_growth(lambda number: number % 7, writer, late)) == ["misplaced key"]


@pytest.mark.parametrize(
    ("at", "begun_at", "expected"),
    [(735.0, 110.0, ["beyond the cap"]), (600.0, 110.0, []), (725.0, 110.0, []), (735.0, 715.0, [])],
)
def test_the_cap_holds_at_the_end_of_a_calm(at: float, begun_at: float, expected: list[str]) -> None:
    within = [sent(number, at=735.0) for number in range(10 * CAP)]
    beyond = [sent(number, at=at) for number in range(100, 110)]
    run = run_of("capped-c", *within, *beyond, begun_at=begun_at)
    rows = {(each.number % CAP, each.number): named(each.number, "capped-c") for each in within}
    assert found(checker.nothing_is_beyond_the_cap, history(run, dict(rows))) == []
    probe = {(CAP, 0): named(100, "capped-c")}
    assert found(checker.nothing_is_beyond_the_cap, history(run, {**rows, **probe})) == []
    others = {(CAP, place): named(each.number, "capped-c") for place, each in enumerate(beyond)}
    assert found(checker.nothing_is_beyond_the_cap, history(run, {**rows, **others})) == expected


# -- groups, processes ---------------------------------------------------------------------------------


def test_the_group_must_have_received_what_was_acknowledged() -> None:
    run = run_of("gated-c", sent(0, "gated"), sent(1, "gated", acked=False), sent(2, "gated"))
    assert (
        found(
            checker.the_group_has_received_everything,
            history(run, {}, received={(0, 0): set(), (0, 2): set()}),
        )
        == []
    )
    seen = history(run, {}, received={(0, 0): set()})
    assert found(checker.the_group_has_received_everything, seen) == ["missed by the group"]


@pytest.mark.parametrize(
    ("read", "expected"), [({"a"}, []), ({"b"}, ["read otherwise"]), ({"a", "b"}, ["read otherwise"])]
)
def test_what_was_read_stays(read: set[str], expected: list[str]) -> None:
    seen = history(run_of("gated-c", sent(0, "gated")), {(0, 0): "a"}, received={(0, 0): read})
    assert found(checker.an_offset_has_one_record, seen) == expected


def test_everybody_is_served_in_calm() -> None:
    topics = ("orders", "volatile")
    served = [sent(n, topics[n % 2], at=735.0 + n / 10) for n in range(4)]
    assert not found(checker.everybody_is_served_when_all_is_calm, history(run_of("plain-c", *served), {}))
    half = run_of("plain-c", *served[::2])
    assert found(checker.everybody_is_served_when_all_is_calm, history(half, {})) == ["not served"]
    failing = run_of("plain-c", *served, sent(9, at=730.0, acked=False))
    assert found(checker.everybody_is_served_when_all_is_calm, history(failing, {})) == ["failed in calm"]
    anew = [Life("orders", CREATED, READ, {}), Life("volatile", 500.0, READ, {})]
    for writer, expected in {
        "plain-c": [],
        "plain-k": ["not served"],
    }.items():  # librdkafka misses the new one
        seen = evolve(history(run_of(writer, *served[::2]), {}), lives=anew)
        assert found(checker.everybody_is_served_when_all_is_calm, seen) == expected
    gone = run_of("plain-c", *served[::2], stopped_at=730.0)
    assert found(checker.everybody_is_served_when_all_is_calm, history(gone, {})) == []


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        ((0, 0, 0), []),
        ((50, 0, 0), ["grows"]),
        ((0, 20, 0), ["grows"]),
        ((0, 0, 40), ["grows"]),
        ((9, 3, 9), []),
    ],
)
def test_what_processes_take(growth: tuple[int, int, int], expected: list[str]) -> None:
    def taken(at: float) -> Sample:
        mb, threads, files = (more * (at > 700) for more in growth)
        return Sample(at, "ours-c.1", 60.0 + mb, 20 + threads, 30 + files)

    samples = [taken(100.0 + 5 * number) for number in range(200)]
    seen = history(run_of("ours-c", sent(0)), {}, samples=samples, calm=[(0.0, 2_000.0)])
    assert found(checker.memory_threads_and_files_are_flat, seen) == expected
    of_client = [evolve(sample, process="consumer-k.1") for sample in samples]
    assert not found(checker.memory_threads_and_files_are_flat, evolve(seen, samples=of_client))


@pytest.mark.parametrize(
    "module",
    ["checker", "event_checker", "history", "truth", "promises", "plan", "diary", "verdict"],
)
def test_who_judges_knows_nothing_of_the_library(module: str) -> None:
    tree = ast.parse(Path(checker.__file__).with_name(f"{module}.py").read_text())
    named = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    judges = {"checker", "event_checker", "history", "truth", "promises", "plan", "diary"}
    for name in named:
        assert not name.startswith("kafka_partition_events"), name
        assert not name.startswith("tests.") or name.rpartition(".")[2] in judges, name
