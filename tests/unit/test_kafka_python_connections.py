"""Which lost connections of kafka-python's make a broker suspect, and how its second producer connects."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, RequestTimedOutError
from kafka.future import Future

from kafka_partition_events import AdaptivePartitioner, DefaultPartitioner, MetadataFetchError
from kafka_partition_events.clients.flight.record import Attempt
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.kafka_python import second as module
from kafka_partition_events.clients.kafka_python.private import (
    ask_healthy,
    pause_while_connecting,
    run,
    watch_connections,
)
from kafka_partition_events.clients.kafka_python.second import detour
from kafka_partition_events.testing.scripted import cluster_of
from tests.unit.kafka_python_kit import FakeManager, FakeProducer

CLUSTER = cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3])


class Watched:
    def __init__(self) -> None:
        self.manager = FakeManager()
        self.lost: list[int] = []
        self.waited_for = {1, 2}
        watch_connections(self.manager, self.lost.append, self.waited_for.__contains__)

    def fail(self, node: Any, error: Exception | None = None, *, made: bool = True) -> None:
        connection = self.manager.get_connection(node, made=made)
        connection.close_future.failure(error or KafkaConnectionError())


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_connections_that_fail_in_use_are_reported_old_and_new(watched: Watched) -> None:
    watched.manager.get_connection(2)
    watched.fail(2)
    watched.fail(1)
    assert watched.lost == [2, 1]


def test_an_idle_connection_that_a_proxy_closes_says_nothing(watched: Watched) -> None:
    watched.waited_for.clear()
    watched.fail(1)
    assert watched.lost == []
    watched.fail(3, made=False)  # but one that can't be made does
    assert watched.lost == [3]


def test_connections_that_end_in_order_are_not_reported(watched: Watched) -> None:
    watched.manager.get_connection(2).close_future.success(None)  # closed by us
    watched.fail("bootstrap-0")  # which broker is it?
    watched.fail(1, RequestTimedOutError())  # deliveries show which broker is to blame
    assert watched.lost == []


def test_a_producer_that_closes_loses_no_broker(watched: Watched) -> None:
    watched.manager.closed = True
    watched.fail(1)
    assert watched.lost == []


def test_a_broker_has_something_in_flight_until_it_is_answered() -> None:
    poller: Any = SimpleNamespace(cluster=CLUSTER)
    partitioner = AdaptivePartitioner()
    partitioner.apply_snapshot(poller.cluster)
    reports, attempt, route = ProducerReports(partitioner, poller), Attempt("t", 1, 0), partitioner.route("t")
    assert route is not None
    reports.sent(attempt, route)
    assert [reports.has_in_flight(broker) for broker in (1, 2)] == [False, True]
    reports.withdrawn(attempt)
    assert not reports.has_in_flight(2)


def test_no_suspect_is_asked_as_long_as_there_are_others() -> None:
    manager, suspects = FakeManager(), {1}
    ask_healthy(manager, lambda: suspects)
    assert {manager.least_loaded_node() for _ in range(50)} == {2, 3}
    manager.resting.add(2)
    assert {manager.least_loaded_node() for _ in range(50)} == {3}
    suspects.add(3)
    assert manager.least_loaded_node() == 1
    manager.least_loaded = None
    assert manager.least_loaded_node() is None


def test_a_connection_that_is_not_ready_is_waited_for_and_in_milliseconds() -> None:
    client = pause_while_connecting(FakeManager())
    client.resting.add(2)  # for a second, which kafka-python's sender takes for a millisecond
    assert [client.connection_delay(node) for node in (1, 2)] == [20.0, 1000.0]


# -- the second producer ---------------------------------------------------------------------------------


@pytest.fixture
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


def test_what_a_coroutine_on_the_io_thread_says_is_waited_for_so_long() -> None:
    future: Any = Future()
    manager = SimpleNamespace(call_soon=lambda _ask, _topic: future)
    with pytest.raises(MetadataFetchError, match="no answer within"):
        run(manager, 0.01, print, "t")
    future.success("said")
    assert run(manager, 0.01, print, "t") == "said"
    future = Future().failure(KafkaTimeoutError())
    with pytest.raises(KafkaTimeoutError):
        run(manager, 0.01, print, "t")
