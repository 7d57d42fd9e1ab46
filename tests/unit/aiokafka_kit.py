"""Producers of aiokafka that need no broker: a test says what becomes of their batches."""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.protocol.metadata import MetadataResponse_v5
from attrs import define

from kafka_partition_events import DefaultPartitioner, MetadataPoller
from kafka_partition_events.clients.aiokafka import attach
from kafka_partition_events.health.in_flight import MAIN, STANDBY
from kafka_partition_events.routing.table import NOTHING, Avoidance
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.poller_kit import until

LEADERS = {"t": [1, 2, 3], "u": [1, 2, 3]}


def a_poller(**topics: list[int]) -> MetadataPoller:
    poller = MetadataPoller(ScriptedSource(observe(topics or LEADERS, brokers=[1, 2, 3])))
    poller.poll_once()
    return poller


async def idle() -> None:
    """Stand for a sender's task, which ends well when it is cancelled."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def a_producer(**config: Any) -> AIOKafkaProducer:
    """Return a producer that believes that it was started; nothing is connected to."""
    settings = {"acks": "all", "enable_idempotence": False, **config}
    producer = AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", **settings)
    learn(producer, LEADERS)
    producer._sender._sender_task = asyncio.ensure_future(idle())
    return producer


def learn(producer: AIOKafkaProducer, leaders: dict[str, list[int]]) -> None:
    """Let a producer know topics; leader -1 is none."""
    brokers = [(number, "127.0.0.1", number, None) for number in (1, 2, 3)]
    topics: Any = []
    for topic, those in leaders.items():
        rows: Any = [(0, n, leader, [leader], [leader], []) for n, leader in enumerate(those)]
        topics.append((0, topic, False, rows))
    producer.client.cluster.update_metadata(MetadataResponse_v5(0, brokers, "c", 1, topics))


@define
class Sent:
    """A batch that a sender would take."""

    partition: int
    batch: Any

    @property
    def records(self) -> int:
        return int(self.batch.record_count)

    def arrive(self, offset: int = 100) -> None:
        self.batch.done(offset, -1)

    def fail(self, error: Exception) -> None:
        self.batch.failure(error)


@define
class Rig:
    """An attached producer, and what its accumulators have."""

    producer: AIOKafkaProducer
    partitioner: Any
    poller: MetadataPoller
    offset: int = 0

    @property
    def adapter(self) -> Any:
        held = [cell.cell_contents for cell in type(self.producer).flush.__closure__]
        (adapter,) = [each for each in held if hasattr(each, "flight")]
        return adapter

    @property
    def outstanding(self) -> int:
        return sum(self.partitioner.deliveries.stats.outstanding.values())

    def accumulator(self, handle: int = MAIN) -> Any:
        if handle == MAIN:
            return self.producer._message_accumulator
        (second,) = self.adapter.made
        return second._accumulator

    def taken(self, handle: int = MAIN) -> list[Sent]:
        """Take what a sender would send now."""
        nodes, _ = self.accumulator(handle).drain_by_nodes(ignore_nodes=())
        return [Sent(tp.partition, batch) for batches in nodes.values() for tp, batch in batches.items()]

    async def deliver(self, handle: int = MAIN) -> list[Sent]:
        """Have everything delivered that there is, at offsets that count up; return it."""
        taken = self.taken(handle)
        for sent in taken:
            sent.arrive(self.offset)
            self.offset += sent.records
        await reports()
        return taken

    def suspect(self, *replicas: int) -> None:
        """Do as the failure detector does when replicas are suspect: what needs none takes the second way."""
        suspects = frozenset(replicas)
        self._believe(Avoidance(replicas=suspects, leaders=suspects), STANDBY)

    def trust(self) -> None:
        self._believe(NOTHING, MAIN)

    def _believe(self, avoidance: Avoidance, handle: int) -> None:
        deliveries = self.partitioner.deliveries
        deliveries._detector.avoidance = avoidance
        deliveries._detector.handle = handle
        deliveries._renew()
        deliveries._on_change()

    async def second_way(self) -> None:
        """Wait until the second way is there, with a sender that sends nothing."""
        detour = self.adapter._detour
        await until(lambda: detour.handle() is not None)
        (second,) = self.adapter.made
        second._sender._sender_task.cancel()
        await asyncio.sleep(0)
        second._sender._sender_task = asyncio.ensure_future(idle())

    async def stop(self) -> None:
        """Stop, whatever has no outcome yet."""
        for handle in (MAIN, *(STANDBY for _ in self.adapter.made)):
            self.taken(handle)
            for batch in tuple(self.accumulator(handle)._pending_batches):
                batch.done_noack()
        await self.producer.stop()
        self.poller.close()


async def a_rig(partitioner: Any = None, *, config: dict[str, Any] | None = None, **options: Any) -> Rig:
    partitioner = partitioner or DefaultPartitioner()
    producer = await a_producer(**(config or {}))
    poller = a_poller()
    attach(producer, partitioner=partitioner, poller=poller, **options)
    return Rig(producer, partitioner, poller)


async def reports() -> None:
    """Have the loop call what waits for futures that are done."""
    for _ in range(3):
        await asyncio.sleep(0)


async def outcome(waiting: Awaitable[Any]) -> Any:
    """Return what arrived, or the error."""
    try:
        return await asyncio.wait_for(waiting, 5)
    except Exception as error:  # noqa: BLE001 - the test compares it
        return error
