"""Makes the partitioner of a running ``KafkaProducer`` follow the cluster, and the producer's deliveries."""

import weakref
from collections.abc import Mapping
from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.attaching import EndsWithProducer, Plan, check_poller
from kafka_partition_events.clients.embedding import is_embedded
from kafka_partition_events.clients.flight.detour import StandbyMode
from kafka_partition_events.clients.flight.key_moves import KeysMode, MoveKeys
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.clients.kafka_python.adapter import Adapter
from kafka_partition_events.clients.kafka_python.cleanup_policy import policies_over
from kafka_partition_events.clients.kafka_python.idempotence import keep_sending
from kafka_partition_events.clients.kafka_python.links import ProducerLink
from kafka_partition_events.clients.kafka_python.private import cluster_of, topics_of, watch_connections
from kafka_partition_events.clients.kafka_python.second import detour
from kafka_partition_events.clients.kafka_python.source import KafkaPythonMetadataSource
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner


def attach(
    producer: KafkaProducer,
    rescue: RescueMode | None = None,
    *,
    standby: StandbyMode = "auto",
    keys: KeysMode | MoveKeys = "stay",
    poller: MetadataPoller | None = None,
    **poller_options: Any,
) -> MetadataPoller:
    """Start a poller on a producer, and let the producer's partitioner know the cluster and the deliveries.

    The poller asks over the producer's connections for the topics that the producer writes; it learns of new
    ones by the public ``ClusterMetadata.add_listener``. It closes when the producer is closed or garbage
    collected. Closing it sooner is allowed: the partitioner then goes by the producer's own metadata again.

    The producer becomes an instance of a subclass of its class: its ``send`` also reports to the partitioner
    which records are in flight and when they are answered, so that records without a key avoid brokers that
    do not answer (`BrokerSuspected`), before metadata names them. The application's futures and callbacks are
    its own, as ever. Closing the poller ends it.

    Args:
        producer: A ``kafka.KafkaProducer`` made with ``partitioner=`` one of this library's partitioners.
        rescue: What is sent again of records without a key and an explicit partition: ``"failed"``: what
            timed out; ``"hedge"``: also what is stuck on a broker that becomes suspect, with a key, too, if
            these move. At least once: a copy may arrive beside its original, idempotence or not.
            `rescue_stats` counts. It ends with the producer, not with the poller.
        standby: Whether records may go by a second ``KafkaProducer`` while a write that waits for a replica
            blocks the connections of this one (``acks="all"``): ``"auto"`` (made when it is needed, closed
            when it was idle for a minute) or ``"off"``. Never used with transactions or another ``acks``.
        keys: Whether records with a key wait for its partition (``"stay"``) or go to another one while that
            needs a sick broker (``"move"``, `MoveKeys`): see ``docs/keys.md``. `key_stats` counts.
        poller: A poller to follow instead, for producers that share a partitioner. It is left running. Make
            its source of settings: one that was attached ends with its producer, and is refused.
        **poller_options: Arguments of `MetadataPoller`, such as ``interval=5.0``.

    Returns:
        The running poller; register listeners there.

    Raises:
        ConfigurationError: the producer has another kind of partitioner, or one that follows another poller,
            an option is out of range, ``poller`` was attached, or ``rescue`` is wanted and the producer is
            transactional, has ``acks=0``, or has a rescue already; ``keys="move"`` likewise, and where the
            partitioner contradicts it.
        ForkedError: the partitioner or the poller was made before a fork.
    """
    config, partitioner = producer.config, _checked(producer, poller, poller_options)
    transaction = None if config["transactional_id"] is None else "transactional_id"
    acks = "all" if config["acks"] in {-1, "all"} else str(config["acks"])
    plan = Plan.checked(producer, partitioner, rescue, standby, keys, transaction=transaction, acks=acks)
    source = None
    if poller is None:
        source = _AttachedSource(producer)
        poller = MetadataPoller(source, **{"topics": (), **poller_options})
    written, owner = topics_of(producer), weakref.ref(producer)
    way = None
    if plan.has_second:
        way = detour(config, partitioner, poller, written, lambda: owner() is not None)
    adapter = Adapter(producer, partitioner, way)
    adapter.flight, follower = plan.begin(
        producer, partitioner, adapter, poller, written, lambda: policies_over(ProducerLink(producer)),
        linger_s=config["linger_ms"] / 1000, last_closes=source is not None,
    )  # fmt: skip
    copies, reports = adapter.flight.copies, adapter.flight.reports
    keep_sending(producer)
    unwatch = watch_connections(producer, reports.unreachable, reports.has_in_flight)
    adapter.take_part(producer, follower.leave)
    if copies is not None:
        adapter.serve(copies, hedges=plan.mode == "hedge")

    def follow(changed: Any) -> None:  # on kafka-python's I/O thread: it must not block nor raise
        for topic in changed.topics():
            follower.ask_for(topic)

    def stop() -> None:
        unwatch()
        adapter.end()

    cluster_of(producer).add_listener(follow)
    if source is not None:
        source.on_close = stop
        poller.start()
    weakref.finalize(producer, follower.drop)
    return poller


def _checked(
    producer: KafkaProducer, poller: MetadataPoller | None, poller_options: Mapping[str, Any]
) -> Partitioner:
    """Return the producer's partitioner, which is one of ours and free to follow the poller."""
    partitioner = producer.config["partitioner"]
    if not isinstance(partitioner, Partitioner):
        raise ConfigurationError(
            f"the producer's partitioner is a {type(partitioner).__name__}; make the producer with "
            "partitioner=DefaultPartitioner() or another partitioner of this library"
        )
    example = "settings: MetadataPoller(KafkaPythonMetadataSource(settings), ())"
    check_poller(partitioner, poller, poller_options, example)
    if is_embedded(producer):
        raise ConfigurationError(
            "this producer is attached already: to end that, close its poller. With a rescue, keys that "
            "move, or a serializer it lasts as long as the producer: make a new one"
        )
    return partitioner


class _AttachedSource(EndsWithProducer, KafkaPythonMetadataSource):
    """Asks over the producer's connections, and ends with it."""
