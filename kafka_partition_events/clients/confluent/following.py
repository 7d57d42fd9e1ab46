"""How a producer's partitioner follows a poller: one that is given, or one that is the producer's own."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Producer

from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.listener import Registration
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

CLOSE_LIMIT_S = 1.0
"""How long closing waits for a fetch that hangs. It ends by itself, and touches the producer no more."""

_exclusive: "weakref.WeakSet[Partitioner]" = weakref.WeakSet()
"""Partitioners that follow some producer's own poller, and so can't follow another's."""


def check_free(partitioner: Partitioner) -> None:
    """Raise if a partitioner follows another producer's own poller.

    Raises:
        ConfigurationError: it does.
    """
    if partitioner in _exclusive:
        raise ConfigurationError(
            "this partitioner already follows another producer's own poller; share a poller too, "
            "or give each producer its own partitioner"
        )


class Following:
    """The poller that one producer's partitioner follows, until `end`.

    Neither the poller nor its source keeps the producer alive; when it is dropped, following ends by itself.
    """

    def __init__(
        self,
        producer: Producer,
        partitioner: Partitioner,
        poller: MetadataPoller | None,
        config: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self._source: ConfluentMetadataSource | None = None
        self._undo: Callable[[float], None]
        if poller is not None:
            self.poller = poller
            self._undo = _unregistering(_registered(poller, partitioner))
        else:
            self._source = ConfluentMetadataSource(
                config, producer=producer, suspects=partitioner.deliveries.suspects
            )
            self.poller = MetadataPoller(self._source, (), **options)
            self._undo = _closing(self.poller, partitioner)
        # Whoever drops the producer must not wait.
        self._dropped = weakref.finalize(producer, self._undo, 0.0)
        if poller is None:
            _exclusive.add(partitioner)
            self.poller.register(partitioner)
            self.poller.start()

    @property
    def ended(self) -> bool:
        """Whether following is over."""
        return not self._dropped.alive

    def end(self) -> None:
        """Follow no more; idempotent."""
        if self._dropped.detach() is None:
            return
        self._undo(CLOSE_LIMIT_S)
        if self._source is not None:
            self._source.release()  # a fetch that outlives the limit must not touch a handle that is closed


def _registered(poller: MetadataPoller, partitioner: Partitioner) -> Registration | None:
    try:
        return poller.register(partitioner)
    except ConfigurationError:  # registered already: by the user, or by another producer that shares both
        return None


def _unregistering(registration: Registration | None) -> Callable[[float], None]:
    def undo(_limit: float) -> None:
        if registration is not None:
            registration.close()

    return undo


def _closing(poller: MetadataPoller, partitioner: Partitioner) -> Callable[[float], None]:
    kept = weakref.ref(partitioner)

    def undo(limit: float) -> None:
        follower = kept()
        if follower is not None:
            _exclusive.discard(follower)
        poller.close(limit)

    return undo
