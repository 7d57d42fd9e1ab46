"""Producers of asyncio that are opened and closed many times leave nothing, and debug mode says nothing."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.clients.aiokafka import PartitioningAIOKafkaProducer
from kafka_partition_events.clients.confluent import AsyncPartitioningProducer
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.plugin import MakeTopic

pytestmark = pytest.mark.kafka
LIMIT_S = 30.0

ASKS_ALL_THE_TIME = {"interval": 0.01, "min_interval": 0.001}
"""So that its poller asks while a producer closes."""

Send = Callable[[str, bytes], Any]
Open = Callable[[str], AbstractAsyncContextManager[Send]]


@asynccontextmanager
async def an_aiokafka(servers: str) -> AsyncIterator[Send]:
    async with PartitioningAIOKafkaProducer(
        bootstrap_servers=servers, acks="all", rescue="hedge", request_timeout_ms=1500,
        poller_options=ASKS_ALL_THE_TIME,
    ) as producer:  # fmt: skip
        yield producer.send_and_wait


@asynccontextmanager
async def a_front(servers: str) -> AsyncIterator[Send]:
    async with AsyncPartitioningProducer(
        {"bootstrap.servers": servers, "message.timeout.ms": 1500},
        rescue="hedge",
        poller_options=ASKS_ALL_THE_TIME,
    ) as producer:
        yield producer.send


def what_is_there() -> tuple[Counter[str], int, int]:
    """Return the threads by name, and how many tasks and sockets there are."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except OSError:  # it was closed a moment ago
            continue
    sockets = sum(link.startswith("socket:") for link in links)
    return Counter(t.name for t in threading.enumerate()), len(asyncio.all_tasks()), sockets


def cycles_leave_nothing(client: Open, servers: str, topic: str, cycles: int) -> None:
    async def cycle() -> None:
        async with client(servers) as send:
            await asyncio.gather(*[send(topic, b"v") for _ in range(3)], return_exceptions=True)

    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = LIMIT_S  # of a busy machine
        await cycle()  # the first one imports, and starts what stays, such as the loop's own threads
        await asyncio.sleep(0.5)
        before = what_is_there()
        for _ in range(cycles):
            await cycle()
        deadline = time.monotonic() + LIMIT_S
        while (left := what_is_there()) != before:
            assert time.monotonic() < deadline, f"{left}, where there was {before}"
            await asyncio.sleep(0.05)

    asyncio.run(main(), debug=True)


@pytest.fixture(autouse=True)
def debug_mode_says_nothing(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.mark.parametrize("client", [an_aiokafka, a_front])
@pytest.mark.parametrize("cycles", [20, pytest.param(1_000, marks=pytest.mark.weekly)])
def test_no_thread_task_or_socket_is_left(
    client: Open, cycles: int, kafka_cluster: KafkaCluster, kafka_topic: MakeTopic
) -> None:
    cycles_leave_nothing(client, kafka_cluster.bootstrap_servers, kafka_topic(3), cycles)


@pytest.mark.parametrize("client", [an_aiokafka, a_front])
def test_nor_where_a_broker_is_frozen(client: Open, cluster: KafkaCluster, topic: str) -> None:
    # The others are to begin with: aiokafka gives up where none of them answers within a request's time.
    first, _frozen, third = cluster.bootstrap_servers.split(",")
    cluster.freeze(2)
    try:
        cycles_leave_nothing(client, f"{first},{third}", topic, 10)
    finally:
        cluster.thaw(2)
