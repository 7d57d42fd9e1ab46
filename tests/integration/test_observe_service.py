"""The service in this process, on a scripted cluster: what it keeps from one life to the next."""

import http.client
import json
import sqlite3
from pathlib import Path

import pytest
from attrs import evolve

from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.observe.service import Service
from kafka_partition_events.observe.settings import Client, Http, Kafka, Observer, Outbox, Settings
from kafka_partition_events.outbox import SqliteOutbox
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.waiting_kit import waiting

LIMIT_S = 20.0
wait_until = waiting(LIMIT_S, 0.02)

TWO = observe({"orders": {"id": "A", "partitions": [1]}, "other": {"id": "B", "partitions": [1]}})
GROWN = observe({"orders": {"id": "A", "partitions": [1, 1]}, "other": {"id": "B", "partitions": [1]}})


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        kafka=Kafka(bootstrap_servers="x:1"),
        observer=Observer(name="noc-1", interval=0.1),
        outbox=Outbox(path=str(tmp_path / "outbox.db")),
        http=Http(listen=("127.0.0.1", 0)),
    )


def live_through(settings: Settings, seen: Observation) -> None:
    """Start a service, wait until it is ready and has journaled, and stop it."""
    with Service(settings, lambda _config: ScriptedSource(seen)) as service:
        wait_until(lambda: ask(service, "/readyz") == (200, "ok\n"), "it is ready")
        assert ask(service, "/livez") == (200, "ok\n")


def ask(service: Service, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*service.address, timeout=LIMIT_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


DERIVED = {"cluster.summary"}


def journal(settings: Settings) -> list[str]:
    """Return what was told, but for what is derived of it a moment later."""
    outbox = SqliteOutbox(settings.outbox.path)
    changes = (entry for entry in outbox.history() if entry.name not in DERIVED)
    told = [f"{entry.name} {entry.subject}" for entry in changes]
    outbox.close()
    return told


def test_what_changed_between_two_lives_is_told(settings: Settings) -> None:
    live_through(settings, TWO)
    assert journal(settings) == [
        "broker.joined broker/1",
        "topic.created topic/orders",
        "topic.created topic/other",
    ]
    live_through(settings, GROWN)
    assert [told for told in journal(settings)[3:] if told.startswith(("topic", "part"))] == [
        "partitions.added topic/orders/1"
    ]


@pytest.mark.parametrize(("before", "after"), [(".*", "orders"), ("orders", ".*")])
def test_looking_at_other_topics_is_no_news_of_the_cluster(
    before: str, after: str, settings: Settings
) -> None:
    for topics in (before, after):
        observer = evolve(settings.observer, topics=topics)
        live_through(evolve(settings, observer=observer), TWO)
    assert not [told for told in journal(settings) if "deleted" in told]
    outbox = SqliteOutbox(settings.outbox.path)
    created = [e for e in outbox.history() if e.name == "topic.created"]
    assert created
    assert all(b'"initial":true' in e.body.replace(b" ", b"") for e in created)
    assert set(outbox.values("topic/")) == {"topic/orders"} | ({"topic/other"} if after == ".*" else set())
    outbox.close()


def test_a_start_without_a_good_answer_leaves_the_snapshot_to_who_polls_as_it_was_polled(
    settings: Settings,
) -> None:
    orders = evolve(settings, observer=evolve(settings.observer, topics="orders"))
    live_through(settings, TWO)
    unanswered = ScriptedSource(MetadataFetchError("down"))
    with Service(orders, lambda _config: unanswered) as service:
        wait_until(lambda: service.why_not_ready() == "no snapshot yet: down", "it has polled")
    with Service(orders, lambda _config: ScriptedSource(TWO)) as service:
        assert ", new" in next(line for line in service.describe() if line.startswith("journal"))
        wait_until(lambda: ask(service, "/readyz") == (200, "ok\n"), "it is ready")
    assert not [told for told in journal(settings) if "deleted" in told]
    with pytest.raises(ConfigurationError):
        Service(settings, lambda _config: refusing())
    with Service(orders, lambda _config: ScriptedSource(TWO)) as service:
        assert ", last poll" in next(line for line in service.describe() if line.startswith("journal"))


def refusing() -> ScriptedSource:
    raise ConfigurationError("it can't log in like that")


@pytest.mark.parametrize(
    ("before", "after"), [("kafka-python", "confluent-kafka"), ("confluent-kafka", "kafka-python")]
)
def test_looking_with_another_client_is_no_news_of_the_cluster(
    before: Client, after: Client, settings: Settings
) -> None:
    """Only one of them knows leader epochs: taken together, each partition would seem to have a new one."""
    sights = {
        "kafka-python": observe({"orders": {"id": "A", "partitions": [{"leader": 1, "epoch": 5}]}}),
        "confluent-kafka": observe({"orders": {"id": "A", "partitions": [1]}}),
    }
    for client in (before, after):
        kafka = evolve(settings.kafka, client=client)
        live_through(evolve(settings, kafka=kafka), sights[client])
    assert not [told for told in journal(settings) if told.startswith("leadership")]


def test_the_cluster_is_told_in_numbers_once_in_a_period_over_restarts_too(settings: Settings) -> None:
    settings = evolve(settings, observer=evolve(settings.observer, summary_interval=10 * 365 * 86_400.0))
    for _ in range(2):
        live_through(settings, TWO)
    outbox = SqliteOutbox(settings.outbox.path)
    (summary,) = outbox.history(names=["cluster.summary"])
    data = json.loads(summary.body)["data"]
    assert (data["topics"], data["partitions"], data["offline"]) == (2, 2, 0)
    assert data["observer"] == "noc-1"
    outbox.close()


def spoilt(settings: Settings) -> None:
    """Let the disk return rubbish for what lies in the outbox behind its first page."""
    path = Path(settings.outbox.path)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.execute("UPDATE readers SET dead = dead")  # so that nobody goes by the pages that it holds
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (path.stat().st_size - 4096))
    other.close()


def test_an_observer_whose_outbox_is_damaged_while_it_runs_is_not_fit(settings: Settings) -> None:
    source = ScriptedSource(TWO)
    with Service(settings, lambda _config: source) as service:
        wait_until(lambda: ask(service, "/readyz") == (200, "ok\n"), "it is ready")
        spoilt(settings)
        source.then(GROWN)
        wait_until(lambda: ask(service, "/readyz")[0] == 503, "it is not")
        assert "it is damaged" in ask(service, "/readyz")[1]


def test_the_cluster_is_called_by_its_name_everywhere(settings: Settings) -> None:
    named = evolve(settings, kafka=evolve(settings.kafka, name="prod"))
    with Service(named, lambda _config: ScriptedSource(TWO)) as service:
        wait_until(lambda: ask(service, "/readyz") == (200, "ok\n"), "it is ready")
        page = ask(service, "/metrics")[1].splitlines()
    assert {line for line in page if line[0] != "#" and 'kafka_cluster="prod"' not in line} == set()
