"""``kpe doctor replicas`` on clusters that are made up."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.doctor import replicas
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.replicas_kit import around, topic, world

Captured = pytest.CaptureFixture[str]
COMMAND = ["doctor", "replicas", "-b", "x:1"]
EXPOSED, SPREAD = topic(around(24, 3, 3)), topic(around(24, 6, 3), "payments")
ALONE = topic([[1, 2]], "alone")
REFUSED = "no configuration of orders: TOPIC_AUTHORIZATION_FAILED"
PATCHED = pytest.MonkeyPatch()


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    PATCHED.undo()


def services(cluster: Cluster, unknown: frozenset[str] = frozenset()) -> Services:
    """Return a cluster whose topics have min.insync.replicas 2, but for some of which nobody knows."""

    def ask(_config: Mapping[str, str], names: Sequence[str]) -> tuple[Mapping[str, int], str | None]:
        known = {name: 2 for name in names if name not in unknown}
        return known, REFUSED if len(known) < len(names) else None

    answer = observe(dict(cluster.by_topic), brokers=list(cluster.nodes.values()))
    PATCHED.setattr(replicas, "ask_min_insync", ask)
    return Services(open_source=lambda _config: ScriptedSource(answer))


def diagnosed(
    *topics: TopicInfo, options: Sequence[str] = (), capsys: Captured, **unknown: frozenset[str]
) -> tuple[int, list[dict[str, Any]]]:
    code = run([*COMMAND, *options], services(world(*topics, brokers=6), **unknown))
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("topics", "unknown", "code"),
    [
        ([SPREAD], (), 0),
        ([], (), 0),
        ([EXPOSED, SPREAD], (), 1),
        ([ALONE], (), 1),
        ([topic([[1, 2, 3]], isr={0: [1]})], (), 1),  # too few are in sync: nothing can be written now
        ([SPREAD], ("payments",), 3),
        ([EXPOSED, SPREAD], ("payments",), 1),
    ],
)
def test_the_exit_code_is_what_was_found(
    topics: list[TopicInfo], unknown: Sequence[str], code: int, capsys: Captured
) -> None:
    assert diagnosed(*topics, capsys=capsys, unknown=frozenset(unknown))[0] == code


def test_the_documents_say_everything(capsys: Captured) -> None:
    _, (orders, payments) = diagnosed(SPREAD, EXPOSED, capsys=capsys)
    (first, *_) = orders.pop("brokers")
    none, all_ = {"partitions": 0, "share": 0.0}, {"partitions": 24, "share": 1.0}
    assert first == {"broker": 1, "while_it_hangs": none, "once_it_is_out": all_}
    counts = {"partitions": 24, "min_insync_replicas": 2, "writable": 24, "without_safe_alternative": 24}
    assert orders == {"kind": "replicas_diagnosis", "topic": "orders", **counts}
    assert [each["while_it_hangs"]["share"] for each in payments["brokers"]] == [0.5] * 6


def test_what_nobody_knows_is_unknown_and_not_1(capsys: Captured) -> None:
    _, (orders,) = diagnosed(EXPOSED, capsys=capsys, unknown=frozenset({"orders"}))
    assert orders["min_insync_replicas"] is None
    assert [each["once_it_is_out"] for each in orders["brokers"]] == [None] * 3
    run([*COMMAND, "--output", "table"], services(world(EXPOSED, brokers=6), frozenset({"orders"})))
    told = capsys.readouterr().out
    assert f"min.insync.replicas of 1 topic unknown: {REFUSED}" in told
    (line,) = [line for line in told.splitlines() if line.startswith("orders")]
    assert line.split() == ["orders", "24", "?", "0", "(0%)", "?", "1,", "2,", "3"]


@pytest.mark.parametrize("count", [3, 1_000])
def test_the_table_is_short_however_many_topics_there_are(count: int, capsys: Captured) -> None:
    topics = [topic(around(6, 3 + number % 2, 3), f"topic-{number}") for number in range(count)]
    assert run([*COMMAND, "--output", "table"], services(world(*topics, brokers=6))) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 40
    assert lines[0] == f"6 brokers, {count:,} topics, {6 * count:,} partitions"
    assert max(map(len, lines)) <= 80


def test_only_the_topics_that_are_meant(capsys: Captured) -> None:
    _, found = diagnosed(EXPOSED, SPREAD, ALONE, options=["--topics", "orders|alone"], capsys=capsys)
    assert [each["topic"] for each in found] == ["orders", "alone"]
