"""What was said to one observer is known to whoever leads next: silences, decisions, and what is open."""

import contextlib
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.observe.shared import Shared, share
from kafka_partition_events.outbox import Write
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import free_ports
from tests.observe_kit import LIMIT_S, TAKE_OVER_S, Observer, Reader, election, kafka_sink

pytestmark = pytest.mark.kafka

SOON = '[incidents]\nhold_down = "2s"\nbroker_hold_down = "2s"\n'


def test_a_new_observer_ends_what_a_dead_one_has_told_and_knows_what_was_decided(
    cluster: KafkaCluster, observer: Callable[..., Observer]
) -> None:
    name = uuid.uuid4().hex[:8]
    cluster.create_topic(f"orders-{name}", assignment={0: [2], 1: [1]})
    cluster.create_topic(f"told-{name}", assignment={0: [1, 3]})
    cluster.create_topic(f"quiet-{name}", assignment={0: [3]})
    more = SOON + kafka_sink(f"told-{name}", "incidents") + election(name)
    with contextlib.closing(Reader(cluster, f"told-{name}", partitions=1)) as reader:
        first = observer("first", more, topics=f"(orders|quiet)-{name}").start()
        first.wait_until("elected", first.feeds)
        second = observer("second", more, topics=f"(orders|quiet)-{name}").start().stands_by()
        silence = second.kpe(
            "silence", "add", "--topics", f"quiet-{name}", "--event",
            "topic.deleted", "--for", "1h", "--reason", "a test", "--author", "ada",
        ).strip()  # fmt: skip
        first.wait_until("told the silence", lambda: silence in silences(first))
        cluster.kill(2)
        try:
            first.wait_until("told", lambda: bool(reader.named("incident.opened")))
            second.wait_until("seen by the second", lambda: bool(incidents(second)))
            (seen,) = incidents(second)
            decide = ("--reason", "it is being mended", "--author", "ada")
            second.kpe("incident", "ack", str(seen["incident_id"]), *decide)
            first.wait_until("acknowledged", lambda: bool(reader.named("incident.acknowledged")))
            for each in (first, second):
                each.kill()
        finally:
            cluster.restart(2)
        # Its outbox is new, and the outage over: nothing tells it that there was one.
        third = observer("third", more, topics=f"(orders|quiet)-{name}").start().ready()
        third.wait_until("told the end", lambda: bool(reader.named("incident.closed")), limit=TAKE_OVER_S)
        cluster.delete_topic(f"quiet-{name}")
        third.wait_until("seen", lambda: third.metric("kpe_events_total", event="topic.deleted") == 1.0)
        cluster.create_topic(f"orders-{name}-2", 1, 1)
        assert silence in silences(third)
        third.kpe("silence", "rm", silence)
        third.wait_until("gone", lambda: silence not in silences(third))
        (opened,), (acked,), (closed,) = (
            reader.named(f"incident.{verb}") for verb in ("opened", "acknowledged", "closed")
        )
        assert acked["data"]["acknowledged_for"] == "it is being mended"
        assert opened["data"]["incident_id"] == closed["data"]["incident_id"]
        assert closed["data"]["reason"] == "over when another observer took over"
        assert reader.named("topic.deleted") == []


def silences(observer: Observer) -> str:
    return observer.kpe("silence", "ls")


def incidents(observer: Observer) -> list[dict[str, Any]]:
    listed = observer.kpe("incident", "ls", "--output", "jsonl")
    return [json.loads(line) for line in listed.splitlines()]


def test_a_copy_follows_the_topic_and_takes_nothing_else(cluster: KafkaCluster, tmp_path: Path) -> None:
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    topic = f"shared-{uuid.uuid4().hex[:8]}"
    told: dict[str, bytes] = {}
    with contextlib.closing(SqliteOutbox(tmp_path / "outbox.db")) as outbox:
        outbox.write(Write(values={"silence/window.sunday": b"its own"}))

        def wait_for(**copied: bytes) -> None:
            wanted = {f"silence/{name}": value for name, value in copied.items()}
            deadline = time.monotonic() + LIMIT_S
            while outbox.values("silence/") != {"silence/window.sunday": b"its own", **wanted}:
                assert time.monotonic() < deadline, outbox.values("")
                time.sleep(0.1)

        def following() -> contextlib.closing[Shared]:
            shared = Shared(config, topic, outbox, told_open=lambda: told)
            shared.start()
            return contextlib.closing(shared)

        odd = {"journal": b"x", "silence/" + "x" * 700: b"x", "silence/large": b"x" * 20_000, "": b"x"}
        share(config, topic, {"silence/a": b"1", "silence/b": b"1", **odd, "open/broker/7": b"stale"})
        with following():
            wait_for(a=b"1", b=b"1")
            share(config, topic, {"silence/a": b"2", "silence/b": None, "silence/c": b"1"})
            wait_for(a=b"2", c=b"1")
        share(config, topic, {"silence/a": None})  # while nobody follows
        told["open/broker/3"] = b"told"
        with following() as shared:
            assert shared.wait_complete(LIMIT_S)
            wait_for(c=b"1")
            deadline = time.monotonic() + LIMIT_S
            while shared.opened() != told:  # the leader corrects the topic
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert shared.opened() is None  # nobody follows it any more
        assert set(outbox.values("")) == {"silence/window.sunday", "silence/c", "shared"}


def test_what_is_open_is_not_known_before_the_topic_is_read(tmp_path: Path) -> None:
    """Or who takes over would clear it of what others have told."""
    (port,) = free_ports(1)
    with contextlib.closing(SqliteOutbox(tmp_path / "outbox.db")) as outbox:
        config = {"bootstrap.servers": f"127.0.0.1:{port}"}
        shared = Shared(config, "shared", outbox, told_open=dict)
        shared.start()
        with contextlib.closing(shared):
            assert not shared.wait_complete(1.0)
            assert shared.opened() is None


def test_a_topic_without_a_leader_is_not_up_and_what_was_read_stays(
    cluster: KafkaCluster, tmp_path: Path
) -> None:
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    topic = f"shared-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, assignment={0: [3]})

    def wait_until(is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    with (
        contextlib.closing(SqliteOutbox(tmp_path / "outbox.db")) as outbox,
        contextlib.closing(Shared(config, topic, outbox, told_open=lambda: None)) as shared,
    ):
        assert not shared.up
        shared.start()
        wait_until(lambda: shared.up)
        cluster.kill(3)
        try:
            wait_until(lambda: not shared.up)
            assert shared.wait_complete(0)
        finally:
            cluster.restart(3)
        wait_until(lambda: shared.up)


def test_who_can_not_reach_kafka_is_told_what_to_do(tmp_path: Path, capsys: Any) -> None:
    SqliteOutbox(tmp_path / "outbox.db").close()
    config = tmp_path / "kpe.toml"
    (port,) = free_ports(1)
    config.write_text(
        f'[kafka]\nbootstrap_servers = "127.0.0.1:{port}"\n[outbox]\npath = "{tmp_path}/outbox.db"\n'
        "[election]\nenabled = true\n"
    )
    words = ["silence", "add", "--config", str(config), "--event", "*", "--for", "1h", "--reason", "a test"]
    assert run([*words, "--author", "ada"]) == 2
    told = capsys.readouterr().err
    assert "topic kpe.observers of 127.0.0.1" in told
    assert "With --outbox PATH it is for the observer of that outbox alone" in told
