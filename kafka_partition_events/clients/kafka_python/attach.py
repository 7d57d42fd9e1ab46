"""Makes the partitioner of a running ``KafkaProducer`` follow the cluster, and the producer's deliveries."""

# ruff: noqa: SLF001 - see `private`

import weakref
from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.attaching import AttachPlan
from kafka_partition_events.clients.flight.detour import StandbyMode
from kafka_partition_events.clients.flight.key_moves import KeysMode, MoveKeys
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.clients.kafka_python.adapter import KafkaPythonAdapter
from kafka_partition_events.clients.kafka_python.idempotence import keep_sending
from kafka_partition_events.clients.kafka_python.private import (
    ask_healthy,
    pause_while_connecting,
    watch_connections,
)
from kafka_partition_events.clients.kafka_python.second import detour
from kafka_partition_events.clients.kafka_python.source import KafkaPythonMetadataSource, policies_over
from kafka_partition_events.metadata.poller import MetadataPoller


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

    The poller asks by connections of its own, made as the producer's, for the topics that the producer
    writes; it learns of new ones by the public ``ClusterMetadata.add_listener``. It closes when the producer
    is closed or garbage collected. Closing it sooner is allowed: the partitioner then goes by the producer's
    own metadata again.

    The producer becomes an instance of a subclass of its class: its ``send`` also reports to the partitioner
    which records are in flight and when they are answered, so that records without a key avoid brokers that
    do not answer (`BrokerSuspected`), before metadata names them. The application's futures and callbacks are
    its own, as ever. A producer is attached once, for as long as it lives.

    Args:
        producer: A ``kafka.KafkaProducer`` made with ``partitioner=`` one of this library's partitioners.
        rescue: What is sent again of records without a key and an explicit partition: ``"failed"``: what
            timed out; ``"hedge"``: also what is stuck on a broker that becomes suspect, with a key, too, if
            these move. At least once: a copy may arrive beside its original, idempotence or not.
            `rescue_stats` counts.
        standby: Whether records may go by a second ``KafkaProducer`` while a write that waits for a replica
            blocks the connections of this one (``acks="all"``): ``"auto"`` (made when it is needed, closed
            when it was idle for a minute) or ``"off"``. Never used with transactions or another ``acks``.
        keys: Whether records with a key wait for its partition (``"stay"``) or go to another one while that
            needs a sick broker (``"move"``, `MoveKeys`): see ``docs/keys.md``. `key_stats` counts.
        poller: A poller to follow instead, for producers that share a partitioner. It is left running, but
            for one that `attach` has returned: that closes with the last of its producers.
        **poller_options: Arguments of `MetadataPoller`, such as ``interval=5.0``.

    Returns:
        The running poller; register listeners there.

    Raises:
        ConfigurationError: the producer has another kind of partitioner, or one that follows another poller,
            an option is out of range, the producer was attached, or ``rescue`` is wanted and
            the producer is transactional or has ``acks=0``; ``keys="move"`` likewise, and where the
            partitioner contradicts it.
        ForkedError: the partitioner or the poller was made before a fork.
    """
    config, partitioner = producer.config, producer.config["partitioner"]
    transaction = None if config["transactional_id"] is None else "transactional_id"
    plan = AttachPlan(
        producer, partitioner, rescue, standby, keys, poller, poller_options,
        transaction=transaction, acks="all" if config["acks"] in {-1, "all"} else str(config["acks"]),
    )  # fmt: skip
    is_own = poller is None
    if poller is None:
        source = KafkaPythonMetadataSource(producer)
        poller = MetadataPoller(source, **{"topics": (), **poller_options})
    cluster = producer._metadata

    def written() -> set[str]:
        # What is written stays in `_topics`, also while an answer that lags does not list it.
        return {*cluster._topics, *cluster.topics()}

    way = detour(config, partitioner, poller, written, weakref.ref(producer))
    adapter = KafkaPythonAdapter(producer, partitioner, way)
    adapter.flight, follower = plan.begin(
        adapter, poller, written, lambda: policies_over(cluster),
        linger_s=config["linger_ms"] / 1000,
    )  # fmt: skip
    reports = adapter.flight.reports
    keep_sending(producer)
    pause_while_connecting(ask_healthy(producer._sender._client, partitioner.deliveries.suspects))
    watch_connections(producer, reports.unreachable, reports.has_in_flight)
    adapter.take_part(producer, follower.leave)

    def follow(changed: Any) -> None:  # on kafka-python's I/O thread: it must not block nor raise
        for topic in changed.topics():
            follower.ask_for(topic)

    cluster.add_listener(follow)
    if is_own:
        poller.start()
    return poller
