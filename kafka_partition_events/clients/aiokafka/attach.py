"""Makes the records of a running ``AIOKafkaProducer`` go where a partitioner of this library says."""

import asyncio
import weakref
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer

from kafka_partition_events.clients.aiokafka.adapter import AiokafkaAdapter
from kafka_partition_events.clients.aiokafka.calls import Calls
from kafka_partition_events.clients.aiokafka.private import THEIRS, is_started, settings_of, watch_connections
from kafka_partition_events.clients.aiokafka.second import SecondAccumulator, detour
from kafka_partition_events.clients.aiokafka.source import AiokafkaMetadataSource, policies_over
from kafka_partition_events.clients.attaching import AttachPlan
from kafka_partition_events.clients.flight.detour import StandbyMode
from kafka_partition_events.clients.flight.key_moves import KeysMode, MoveKeys
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.partitioners.sticky import DefaultPartitioner


def attach(
    producer: AIOKafkaProducer,
    rescue: RescueMode | None = None,
    *,
    partitioner: Partitioner | None = None,
    standby: StandbyMode = "auto",
    keys: KeysMode | MoveKeys = "stay",
    poller: MetadataPoller | None = None,
    **poller_options: Any,
) -> MetadataPoller:
    """Start a poller on a producer, and let a partitioner place its records, and know their deliveries.

    Call it on the producer's event loop, after ``await producer.start()``. The poller asks over the
    producer's client for the topics that the producer writes, on a thread of its own, for which the loop
    never waits. It closes when the producer is stopped or garbage collected. Closing it sooner is allowed, by
    ``await asyncio.to_thread(poller.close)``: the partitioner then goes by the producer's own metadata.

    The producer becomes an instance of a subclass of its class, for as long as it lives. ``send``,
    serializers and futures stay its own. Records without a key avoid brokers that do not answer
    (`BrokerSuspected`), before metadata names them, and go to another partition where a batch is full, so
    that ``await producer.send(...)`` waits only if all are. ``send_batch``, and records with an explicit
    partition, are left alone.

    Args:
        producer: A producer that was started.
        rescue: What is sent again of records without a key and an explicit partition: ``"failed"``: what
            timed out; ``"hedge"``: also what is stuck on a broker that becomes suspect, with a key, too, if
            these move. At least once: a copy may arrive beside its original, idempotence or not.
            `rescue_stats` counts.
        partitioner: Who places records; None: the producer's ``partitioner=``, if it is of this library, or a
            `DefaultPartitioner` where that was not set.
        standby: Whether records may go by other connections of the same client while a write that waits for a
            replica blocks the first ones (``acks="all"``): ``"auto"`` (made when they are needed, closed when
            they were idle for a minute) or ``"off"``. Never used with transactions or another ``acks``.
        keys: Whether records with a key wait for its partition (``"stay"``) or go to another one while that
            needs a sick broker (``"move"``, `MoveKeys`): see ``docs/keys.md``. `key_stats` counts.
        poller: A poller to follow instead, for producers that share a partitioner. It is left running. Make
            its source of a client: one that was attached ends with its producer, and is refused.
        **poller_options: Arguments of `MetadataPoller`, such as ``interval=5.0``.

    Returns:
        The running poller; register listeners there.

    Raises:
        ConfigurationError: the producer was not started, or has another kind of partitioner, or one that
            follows another poller; an option is out of range; ``poller`` or the producer was attached;
            ``rescue`` is wanted and the producer is transactional or has ``acks=0``; ``keys="move"``
            likewise, and where the partitioner contradicts it.
        ForkedError: the partitioner or the poller was made before a fork.
    """
    if not is_started(producer):
        raise ConfigurationError("attach the producer after `await producer.start()`, and before `stop()`")
    if poller is not None and isinstance(poller.source, _AttachedSource):
        raise ConfigurationError(
            "that poller ends with the producer that it was attached to. For producers to share one, make it "
            "of a client: MetadataPoller(AiokafkaMetadataSource(client), ())"
        )
    settings, client = settings_of(producer), producer.client
    chosen: Any = settings.partitioner if partitioner is None else partitioner
    if isinstance(chosen, type(THEIRS)):
        chosen = DefaultPartitioner()
    plan = AttachPlan(
        producer, chosen, rescue, standby, keys, poller, poller_options,
        transaction=settings.transaction, acks=settings.acks,
    )  # fmt: skip
    suspects, source = chosen.deliveries.suspects, None
    if poller is None:
        source = _AttachedSource(client, suspects)
        poller = MetadataPoller(source, **{"topics": (), **poller_options})
    calls, made = Calls(asyncio.get_running_loop()), set[SecondAccumulator]()
    way = detour(client, settings, suspects, calls, made, weakref.ref(producer))
    adapter = AiokafkaAdapter(producer, chosen, settings, way, made)
    adapter.flight, follower = plan.begin(
        adapter, poller,
        lambda: tuple(adapter.topics),  # on the poller's thread; a set is copied in one step
        lambda: policies_over(client, calls),
        linger_s=settings.linger_s,
    )  # fmt: skip
    reports = adapter.flight.reports
    watch_connections(client, reports.unreachable, reports.has_in_flight)

    def stopped() -> None:
        # First the poller is marked as closed, then its thread, which may wait for this very loop, is let go:
        # so it does not take the end of its question for an outage. Nothing here waits for it.
        follower.leave(0.0)
        calls.end()
        if source is not None:
            source.calls.end()

    adapter.take_part(producer, follower.ask_for, stopped)
    if source is not None:
        poller.start()
    return poller


class _AttachedSource(AiokafkaMetadataSource):
    """Asks over the producer's client, and ends with it."""


class PartitioningAIOKafkaProducer(AIOKafkaProducer):  # type: ignore[misc]
    """An ``AIOKafkaProducer`` that `attach`es itself when it is started, where a framework wants a class.

    Attributes:
        partitioner: Who places records.
        poller: The running poller, once it was started; register listeners there.
    """

    poller: MetadataPoller

    def __init__(
        self,
        *,
        partitioner: Partitioner | None = None,
        rescue: RescueMode | None = None,
        standby: StandbyMode = "auto",
        keys: KeysMode | MoveKeys = "stay",
        poller: MetadataPoller | None = None,
        poller_options: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> None:
        """Make a producer, on its event loop, with options of `attach` and arguments of ``AIOKafkaProducer``.

        ``poller_options`` are arguments of `MetadataPoller`. Without a ``partitioner`` it is a
        `DefaultPartitioner`.
        """
        self.partitioner = partitioner or DefaultPartitioner()
        self._asked = {
            "rescue": rescue, "standby": standby, "keys": keys,
            "poller": poller, **(poller_options or {}),
        }  # fmt: skip
        super().__init__(**config)

    async def start(self) -> None:
        """Connect, and attach.

        Raises:
            ConfigurationError: see `attach`; the producer is stopped then.
        """
        await super().start()
        try:
            self.poller = attach(self, partitioner=self.partitioner, **self._asked)
        except BaseException:
            await self.stop()
            raise
