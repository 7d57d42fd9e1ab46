"""What changes while nobody looks is told by the next observer, with a real cluster, file and SIGKILL."""

import json
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.outbox import Entry, SqliteOutbox
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic
from kafka_partition_events_listeners.journal import JournalListener, load_snapshot

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0

OBSERVER = """
import sys, threading, time
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.outbox import SqliteOutbox
from kafka_partition_events_listeners.journal import JournalListener

path, servers = sys.argv[1:]
journal = JournalListener(SqliteOutbox(path))
poller = MetadataPoller(ConfluentMetadataSource({"bootstrap.servers": servers}), interval=0.5)
poller.register(journal)
poller.start()
for _ in range(600):
    if journal.stats.written:
        print("written", flush=True)
        break
    time.sleep(0.1)
threading.Event().wait(60)
"""


def observe_until_killed(path: Path, servers: str) -> None:
    """Observe in a process of its own that is killed when its first look is in the journal."""
    process = subprocess.Popen(
        [sys.executable, "-c", OBSERVER, str(path), servers], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
    finally:
        process.kill()
        process.communicate(timeout=LIMIT_S)


def observe(path: Path, servers: str) -> None:
    """Observe for two looks, from where the last observer stopped."""
    with closing(SqliteOutbox(path)) as outbox:
        source = ConfluentMetadataSource({"bootstrap.servers": servers})
        poller = MetadataPoller(source, resume=load_snapshot(outbox))
        poller.register(JournalListener(outbox))
        poller.poll_once()
        poller.poll_once()
        poller.close()


def journal(path: Path) -> list[Entry]:
    with closing(SqliteOutbox(path)) as outbox:
        outbox.subscribe("test")
        return list(outbox.read("test", 100_000))


def data(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(entry.body)["data"]
    return found


def test_what_changes_while_no_observer_runs_is_told_by_the_next_one(
    kafka_cluster: KafkaCluster, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    path, servers = tmp_path / "events.db", kafka_cluster.bootstrap_servers
    orders = kafka_topic(partitions=2)
    observe_until_killed(path, servers)
    seen = journal(path)
    assert f"topic/{orders}" in {entry.subject for entry in seen}

    before = datetime.now(UTC)
    kafka_cluster.grow_topic(orders, 5)
    payments = kafka_topic(partitions=3)
    after = datetime.now(UTC)

    observe(path, servers)
    recovered, *told = journal(path)[len(seen) :]
    assert (recovered.name, data(recovered)["attempts"]) == ("metadata.recovered", 0)
    structural = [(entry.name, entry.subject) for entry in told if not entry.churn]
    assert structural == [("partitions.added", f"topic/{orders}/2-4"), ("topic.created", f"topic/{payments}")]
    for entry in told:
        assert data(entry)["initial"] is False
        snapshot = data(entry)["snapshot"]
        assert datetime.fromisoformat(snapshot["prev_at"]) < before
        assert after < datetime.fromisoformat(snapshot["at"]) == entry.at
        assert snapshot["gap"] is True

    told_by_now = journal(path)
    observe(path, servers)
    assert [entry.name for entry in journal(path)[len(told_by_now) :]] == ["metadata.recovered"]
    ids = [entry.id for entry in journal(path)]
    assert len(ids) == len(set(ids))
