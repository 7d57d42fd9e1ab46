"""Makes the partitioner of a running ``KafkaProducer`` follow the cluster."""

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.kafka_python.source import KafkaPythonMetadataSource
from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner


def attach(producer: KafkaProducer, **poller_options: Any) -> MetadataPoller:
    """Start a poller on a producer and register the producer's partitioner with it.

    The poller asks over the producer's connections for the topics that the producer writes; it hears of new
    ones by the public ``ClusterMetadata.add_listener``. It closes when the producer is garbage collected, or
    at its next poll after the producer was closed. Closing it sooner is allowed: the partitioner then goes by
    the producer's own metadata again.

    Args:
        producer: A ``kafka.KafkaProducer`` made with ``partitioner=`` one of this library's partitioners.
        **poller_options: Arguments of `MetadataPoller`, such as ``interval=5.0``.

    Returns:
        The running poller; register listeners there.

    Raises:
        ConfigurationError: the producer has another kind of partitioner, or an option is out of range.
    """
    partitioner = producer.config["partitioner"]
    if not isinstance(partitioner, Partitioner):
        raise ConfigurationError(
            f"the producer's partitioner is a {type(partitioner).__name__}; make the producer with "
            "partitioner=DefaultPartitioner() or another partitioner of this library"
        )
    cluster = producer._metadata  # noqa: SLF001 - the partitioner gets the same object as its argument

    def close_poller() -> None:
        poller.close(0.0)

    source = KafkaPythonMetadataSource(producer, on_closed=close_poller)
    poller = MetadataPoller(source, **{"topics": cluster.topics(), **poller_options})
    poller.register(partitioner)
    cluster.add_listener(_tracker(poller))
    poller.track(*cluster.topics())  # what came between the two looks
    poller.start()
    weakref.finalize(producer, close_poller)
    return poller


def _tracker(poller: MetadataPoller) -> Callable[[Any], None]:
    """Return a listener for kafka-python, which calls it on its I/O thread: it must not block nor raise."""

    def track(cluster: Any) -> None:
        with contextlib.suppress(PollerClosedError):
            poller.track(*cluster.topics())

    return track
