"""How kafka-python's second producer is made."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.clients.kafka_python import second as module
from kafka_partition_events.clients.kafka_python.second import detour
from kafka_partition_events.testing.scripted import cluster_of
from tests.unit.kafka_python_kit import FakeProducer

CLUSTER = cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3])


class FakePoller:
    cluster = CLUSTER


@pytest.fixture(autouse=True)
def producers(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    monkeypatch.setattr(module, "KafkaProducer", FakeProducer)
    monkeypatch.setattr(module, "keep_sending", lambda _producer: None)
    monkeypatch.setattr(module, "_LEARN_S", 0.0)
    FakeProducer.made.clear()
    return FakeProducer.made


def made(*topics: str, **config: Any) -> Any:
    partitioner: Any = DefaultPartitioner()
    partitioner.apply_snapshot(CLUSTER)
    partitioner.deliveries.unreachable(2)
    first = {**FakeProducer.DEFAULT_CONFIG, "value_serializer": "theirs", **config}
    poller: Any = FakePoller()
    return detour(first, partitioner, poller, lambda: set(topics), lambda: True)._make()


def test_it_has_the_firsts_settings_and_asks_healthy_brokers(producers: list[FakeProducer]) -> None:
    second = made("t", linger_ms=7)
    (producer,) = producers
    config = producer.config
    assert (config["linger_ms"], config["client_id"], config["max_block_ms"]) == (7, "app-standby-1", 1)
    assert config["value_serializer"] is None
    assert config["allow_auto_create_topics"] is False
    assert len(config["bootstrap_servers"]) == 2
    assert second.knows("t")


@pytest.mark.parametrize(("topic", "has_id"), [("unknown", True), ("t", False)])
def test_one_that_can_not_send_is_closed(
    producers: list[FakeProducer], monkeypatch: pytest.MonkeyPatch, topic: str, has_id: bool
) -> None:
    manager = SimpleNamespace(has_producer_id=lambda: has_id)
    monkeypatch.setattr(FakeProducer, "_transaction_manager", manager)
    with pytest.raises(KafkaTimeoutError, match="no broker gave it"):
        made(topic)
    assert [producer._closed for producer in producers] == [True]


def test_a_topic_that_is_refused_is_no_reason_not_to_be_there(producers: list[FakeProducer]) -> None:
    second = made("t", "refused")
    assert second.knows("t")
    assert not second.knows("refused")
    assert len(producers) == 1
