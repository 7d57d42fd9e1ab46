"""A callback of an `AsyncPartitioningProducer` may close it, also while the application does."""

import asyncio
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka_partition_events.clients.confluent import AsyncPartitioningProducer, aio
from tests.loop_kit import on_a_loop
from tests.unit.test_async_producer import Served

LIMIT_S = 10


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    monkeypatch.setattr(aio, "PartitioningProducer", Served)
    monkeypatch.setattr(Served, "made", [], raising=False)
    return Served.made


@on_a_loop
async def test_a_delivery_callback_closes_it(made: list[Served]) -> None:
    closed = asyncio.Event()
    producer = AsyncPartitioningProducer({})

    async def on_delivery(_error: Any, _message: Any) -> None:
        await producer.close()
        closed.set()

    await producer.produce("t", "1", on_delivery=on_delivery)
    made[0].report(1)
    await asyncio.wait_for(closed.wait(), LIMIT_S)


@on_a_loop
async def test_error_cb_closes_it(made: list[Served]) -> None:
    closed = asyncio.Event()

    async def error_cb(_error: Any) -> None:
        await producer.close()
        closed.set()

    producer = AsyncPartitioningProducer({"error_cb": error_cb})
    made[0].config["error_cb"](KafkaError(KafkaError._FATAL))
    await asyncio.wait_for(closed.wait(), LIMIT_S)


@on_a_loop
async def test_a_callback_closes_it_while_the_application_does(made: list[Served]) -> None:
    producer = AsyncPartitioningProducer({})

    async def on_delivery(_error: Any, _message: Any) -> None:
        await producer.close()

    await producer.produce("t", "1", on_delivery=on_delivery)
    made[0].report(1)
    await asyncio.wait_for(producer.close(), LIMIT_S)


@on_a_loop
async def test_two_callbacks_close_it(made: list[Served]) -> None:
    producer, closed = AsyncPartitioningProducer({}), [asyncio.Event(), asyncio.Event()]

    async def on_delivery(_error: Any, _message: Any) -> None:
        await producer.close()
        next(it for it in closed if not it.is_set()).set()

    for value in ("1", "2"):
        await producer.produce("t", value, on_delivery=on_delivery)
    made[0].report(2)
    await asyncio.wait_for(producer.close(), LIMIT_S)
    for each in closed:
        await asyncio.wait_for(each.wait(), LIMIT_S)
