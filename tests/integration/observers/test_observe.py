"""`kpe observe` on a real cluster: what happens is told, also after a crash."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import free_ports
from tests.http_receiver import Receiver
from tests.observe_kit import Observer, Reader, growths, hook, kafka_sink

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_what_happens_reaches_topic_webhook_and_metrics(
    client: str,
    cluster: KafkaCluster,
    topic: str,
    events_topic: str,
    reader: Reader,
    observer: Callable[..., Observer],
) -> None:
    with Receiver() as receiver:
        sinks = kafka_sink(events_topic) + hook(receiver.url)
        observed = observer("one", sinks, client=client).start().ready()
        assert observed.get("/livez") == (200, "ok\n")
        assert observed.metric("kpe_up") == 1.0
        assert observed.metric("kpe_topic_partitions", topic=topic) == 3.0

        cluster.grow_topic(topic, 5)
        observed.wait_until("told of the growth", lambda: growths(reader, topic) == [5])
        assert observed.metric("kpe_events_total", event="partitions.added") == 1.0

        cluster.kill(2)
        try:
            observed.wait_until("told of the loss", lambda: posted(receiver, "broker.left") == 1)
        finally:
            cluster.restart(2)
        observed.wait_until("told that it is over", lambda: posted(receiver, "broker.joined") == 1)
        for counted in ("kpe_sink_deliveries_total", "kpe_sink_delivery_delay_seconds_count"):
            assert observed.metric(counted, sink="hook") >= 2.0  # type: ignore[operator]
        assert observed.end() == 0
    told = observed.log.read_text()
    assert "T0K3N" not in told
    assert f"kpe: observing {cluster.bootstrap_servers} by {client} every 0.5 s as one" in told
    of_clients = [line for line in told.splitlines() if not line.startswith(("kpe: ", "timestamp="))]
    assert of_clients == []
    assert f"sink hook: events to http://127.0.0.1:{receiver.port}/***" in told


def posted(receiver: Receiver, name: str) -> int:
    return sum(json.loads(r.body)["type"].endswith(f".{name}.v1") for r in receiver.requests)


def test_what_changed_while_nobody_looked_is_told_afterwards(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    observed = observer("phoenix", kafka_sink(events_topic)).start().ready()
    observed.wait_until(
        "told of the topic",
        lambda: any(event["data"]["topic"] == topic for event in reader.named("topic.created")),
    )
    observed.kill()
    cluster.grow_topic(topic, 4)
    observed.start().ready()
    observed.wait_until("told of the growth", lambda: growths(reader, topic) == [4])
    (event,) = reader.named("partitions.added")
    assert event["data"]["snapshot"]["gap"] is True
    created = [e for e in reader.named("topic.created") if e["data"]["topic"] == topic]
    assert len({e["id"] for e in created}) == 1
    assert observed.end(signal.SIGINT) == 0
    assert observed.log.read_text().rstrip().endswith("kpe: stopped")


def test_what_was_recorded_can_be_delivered_to_another_topic_under_the_same_ids(
    cluster: KafkaCluster, topic: str, events_topic: str, reader: Reader, observer: Callable[..., Observer]
) -> None:
    observed = observer("archive").start().ready()
    cluster.grow_topic(topic, 4)
    observed.wait_until("recorded", lambda: "partitions.added" in observed.kpe("events", "ls"))
    recorded = observed.journal()
    with observed.config.open("a") as config:
        config.write(f'[[sinks]]\nname = "late"\ntype = "kafka"\ntopic = "{events_topic}"\n')
    observed.kpe("events", "replay", "--since", "1h", "--sink", "late")
    assert {event["id"] for event in reader.read()} >= {event["id"] for event in recorded}
    assert growths(reader, topic) == [4]


def test_without_a_cluster_it_waits_and_says_so(
    tmp_path: Path, cluster: KafkaCluster, observer: Callable[..., Observer]
) -> None:
    observed = observer("lonely")
    (port,) = free_ports(1)
    text = observed.config.read_text().replace(cluster.bootstrap_servers, f"127.0.0.1:{port}")
    observed.config.write_text(text)
    observed.start()
    observed.wait_until("not ready", lambda: "no snapshot yet: " in observed.get("/readyz")[1])
    assert observed.get("/livez")[0] == 200
    assert observed.metric("kpe_up") == 0.0
    assert observed.end(at_thread=-1) == 0, "whichever thread the kernel hands the signal to"
