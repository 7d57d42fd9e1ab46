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


@pytest.fixture(autouse=True)
def producers(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    monkeypatch.setattr(module, "KafkaProducer", FakeProducer)
    monkeypatch.setattr(module, "keep_sending", lambda _producer: None)
    monkeypatch.setattr(module, "_LEARN_S", (0.0, 0.0))
    FakeProducer.made.clear()
    return FakeProducer.made


def made(*topics: str, **config: Any) -> Any:
    partitioner: Any = DefaultPartitioner()
    partitioner.apply_snapshot(CLUSTER)
    partitioner.deliveries.unreachable(2)
    first = {**FakeProducer.DEFAULT_CONFIG, "value_serializer": "theirs", **config}
    poller: Any = SimpleNamespace(cluster=CLUSTER)
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


def test_one_that_learns_nothing_is_closed_and_another_one_asked(producers: list[FakeProducer]) -> None:
    with pytest.raises(KafkaTimeoutError, match="no broker gave it"):
        made("unknown")
    assert [producer._closed for producer in producers] == [True, True]


def test_one_that_gets_no_producer_id_is_closed_and_another_one_asked(
    producers: list[FakeProducer], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = SimpleNamespace(has_producer_id=lambda: len(producers) > 1)
    monkeypatch.setattr(FakeProducer, "_transaction_manager", waits)
    made("t")
    assert [producer._closed for producer in producers] == [True, False]


def test_a_topic_that_is_refused_is_no_reason_not_to_be_there(producers: list[FakeProducer]) -> None:
    second = made("t", "refused")
    assert second.knows("t")
    assert not second.knows("refused")
    assert len(producers) == 1
