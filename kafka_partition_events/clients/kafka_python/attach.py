"""Makes the partitioner of a running ``KafkaProducer`` follow the cluster, and the producer's deliveries."""

import weakref
from collections.abc import Callable, Collection
from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.kafka_python.deliveries import Reports, watch_connections
from kafka_partition_events.clients.kafka_python.idempotence import keep_sending
from kafka_partition_events.clients.kafka_python.rescue import Rescue, refuse_with
from kafka_partition_events.clients.kafka_python.sending import Sending
from kafka_partition_events.clients.kafka_python.source import KafkaPythonMetadataSource
from kafka_partition_events.clients.kafka_python.standby import Standby, other_ways
from kafka_partition_events.clients.rerouting import reroutes
from kafka_partition_events.clients.rescue import RescueLimits, RescueMode, checked_mode
from kafka_partition_events.clients.standby import StandbyMode, checked_standby
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.poller import MetadataPoller, check_free
from kafka_partition_events.partitioners.base import Partitioner


def attach(
    producer: KafkaProducer,
    rescue: RescueMode | None = None,
    rescue_limits: RescueLimits | None = None,
    *,
    standby: StandbyMode = "lazy",
    poller: MetadataPoller | None = None,
    **poller_options: Any,
) -> MetadataPoller:
    """Start a poller on a producer, and let the producer's partitioner know the cluster and the deliveries.

    The poller asks over the producer's connections for the topics that the producer writes; it hears of new
    ones by the public ``ClusterMetadata.add_listener``. It closes when the producer is closed or garbage
    collected. Closing it sooner is allowed: the partitioner then goes by the producer's own metadata again.

    The producer becomes an instance of a subclass of its class: its ``send`` also tells the partitioner which
    records are on their way and when they are answered, so that unkeyed records avoid brokers that have
    fallen silent (`BrokerSuspected`), before the metadata tells. The application's futures and callbacks are
    its own, as ever. Closing the poller ends it.

    Args:
        producer: A ``kafka.KafkaProducer`` made with ``partitioner=`` one of this library's partitioners.
        rescue: What is sent again of unkeyed records without an explicit partition: ``"failed"``: what timed
            out; ``"hedge"``: also what is stuck on a broker that becomes suspect. At least once: a copy may
            arrive beside its original, idempotence or not. `rescue_stats` counts. It ends with the producer,
            not with the poller.
        rescue_limits: How much may be sent again and kept for it.
        standby: Whether unkeyed records may go by a second ``KafkaProducer`` while a write that waits for a
            replica blocks the connections of this one (``acks="all"``): ``"lazy"``, ``"warm"`` or ``"off"``;
            and by a third one where the second is blocked, too.
            It costs nothing until then; never used with transactions or another ``acks``.
        poller: A poller to follow instead, for producers that share a partitioner. It is left running. Make
            its source of settings: one that was attached ends with its producer, and is refused.
        **poller_options: Arguments of `MetadataPoller`, such as ``interval=5.0``.

    Returns:
        The running poller; register listeners there.

    Raises:
        ConfigurationError: the producer has another kind of partitioner, or one that follows another poller,
            an option is out of range, ``poller`` was attached, ``rescue`` is wanted and the producer is
            transactional or has one already, or ``standby="warm"`` and it is transactional.
    """
    partitioner = producer.config["partitioner"]
    if not isinstance(partitioner, Partitioner):
        raise ConfigurationError(
            f"the producer's partitioner is a {type(partitioner).__name__}; make the producer with "
            "partitioner=DefaultPartitioner() or another partitioner of this library"
        )
    mode = checked_mode(rescue, rescue_limits)
    if mode is not None:
        refuse_with(producer)
    waits = producer.config["acks"] in {-1, "all"}
    transaction = None if producer.config["transactional_id"] is None else "transactional_id"
    way = checked_standby(standby, transaction, waits_for_replicas=waits)
    if poller is not None and poller_options:
        raise ConfigurationError(f"{', '.join(poller_options)}: options of a poller; it is made already")
    if poller is not None and isinstance(poller.source, _AttachedSource):
        raise ConfigurationError(
            "that poller ends with the producer that it was attached to. For producers to share one, make it "
            "of settings: MetadataPoller(KafkaPythonMetadataSource(settings), ())"
        )
    cluster = producer._metadata  # noqa: SLF001 - the partitioner gets the same object as its argument
    check_free(partitioner, poller)
    source = None
    if poller is None:
        source = _AttachedSource(producer, on_closed=lambda: follower.leave(0.0))
        poller = MetadataPoller(source, **{"topics": (), **poller_options})
    # What is written stays in `_topics`, also while an answer that lags does not list it.
    follower = poller.join(
        partitioner,
        lambda: {*cluster._topics, *cluster.topics()},  # noqa: SLF001
        last_closes=source is not None,
    )
    if waits:
        partitioner.deliveries.wait_for_replicas()
    standbys = other_ways(way, producer.config, partitioner, poller)
    keep_sending(producer)
    stop = _report(
        producer, partitioner, poller, standbys, mode, rescue_limits or RescueLimits(), follower.leave
    )

    def look(changed: Any) -> None:  # on kafka-python's I/O thread: it must not block nor raise
        for topic in changed.topics():
            follower.look_for(topic)

    cluster.add_listener(look)
    if source is not None:
        source.on_close = stop
        poller.start()
    weakref.finalize(producer, follower.leave, 0.0)
    return poller


def _report(
    producer: KafkaProducer,
    partitioner: Partitioner,
    poller: MetadataPoller,
    standbys: Collection[Standby],
    mode: RescueMode | None,
    limits: RescueLimits,
    closed: Callable[[], None],
) -> Callable[[], None]:
    """Bring the producer's deliveries to the partitioner; return what ends it."""
    partitioner.deliveries.wait_for_batches(producer.config["linger_ms"] / 1000)
    reports = Reports(partitioner, poller)
    sending = Sending(type(producer), reports, standbys, reroutes=reroutes(partitioner))
    rescue = None if mode is None else Rescue(producer, partitioner, reports, sending, mode, limits)
    unwatch = watch_connections(producer, reports.lost_connection)
    end = sending.install(producer, rescue, closed)
    reference = weakref.ref(producer)

    def stop() -> None:
        reports.open = False
        unwatch()
        if (attached := reference()) is not None:
            end(attached)

    return stop


class _AttachedSource(KafkaPythonMetadataSource):
    """Tells when the poller closes."""

    on_close: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.on_close is not None:
            self.on_close()
