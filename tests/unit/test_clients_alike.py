"""One contract for all clients: their options and what they count have the same names, defaults and types."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_partition_events.clients import aiokafka, kafka_python
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer, PartitioningProducer
from kafka_partition_events.clients.confluent.choosing import ProducerStats
from kafka_partition_events.clients.flight.key_moves import KeyStats
from kafka_partition_events.clients.flight.rescue import RescueStats
from tests.docs_kit import ROOT

OPTIONS = ("rescue", "standby", "keys", "poller")
CLIENTS: dict[str, Callable[..., Any]] = {
    "confluent-kafka": PartitioningProducer,
    "confluent-kafka, asyncio": AsyncPartitioningProducer,
    "kafka-python": kafka_python.attach,
    "aiokafka": aiokafka.attach,
    "aiokafka, a class": aiokafka.PartitioningAIOKafkaProducer,
}
FIRST = inspect.signature(PartitioningProducer).parameters


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_the_same(client: str, option: str) -> None:
    parameters = inspect.signature(CLIENTS[client]).parameters
    assert parameters[option].default == FIRST[option].default
    assert parameters[option].annotation == FIRST[option].annotation


@pytest.mark.parametrize("client", CLIENTS)
def test_options_of_its_poller_are_given_where_it_is_made(client: str) -> None:
    parameters = inspect.signature(CLIENTS[client]).parameters
    assert "poller_options" in parameters  # a mapping, or where `attach` takes nothing else, keywords


def test_what_is_counted_of_rescues_and_keys_has_one_type() -> None:
    hints = inspect.get_annotations(ProducerStats)
    assert (hints["rescue"], hints["keys"]) == (RescueStats, KeyStats)
    for client in (kafka_python, aiokafka):
        assert inspect.get_annotations(client.rescue_stats)["return"] is RescueStats
        assert inspect.get_annotations(client.key_stats)["return"] is KeyStats


def rows() -> Iterator[list[str]]:
    page = (ROOT / "docs" / "producers.md").read_text(encoding="utf-8")
    table = page.partition("## One interface for all clients")[2].partition("\n## ")[0]
    for line in table.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_all_options() -> None:
    assert [row[0].strip("`").rstrip("=") for row in rows()][: len(OPTIONS)] == list(OPTIONS)
