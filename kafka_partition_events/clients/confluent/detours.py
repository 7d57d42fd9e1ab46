"""The further handles of librdkafka's beside a producer's own; see ``clients/flight/detour.py``."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka.cimpl import Producer

from kafka_partition_events.clients.confluent.settings import with_one_request_in_flight
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.flight.detour import Detour, healthy
from kafka_partition_events.metadata.cluster import Cluster

_SERVERS = {"bootstrap.servers", "metadata.broker.list"}
_OF_THE_FIRST = {"stats_cb", "throttle_cb", "statistics.interval.ms"}
"""Settings that are not a further handle's: a reader of statistics expects one producer."""


class Detours(dict[int, Detour[Handle]]):
    """A second and a third handle of one producer, which they do not keep alive. Thread-safe.

    If the wrong broker was suspected first, records that wait for the right one block the second handle, too.
    """

    def __init__(
        self,
        producer: Handle,
        config: Mapping[str, Any],
        cluster: Callable[[], Cluster | None],
        suspects: Callable[[], frozenset[int]],
        throttled: Callable[[Any], None],
        *,
        count: int,
    ) -> None:
        """Prepare so many handles with a producer's settings; none is made yet.

        They are not to ask ``suspects`` for metadata; ``throttled`` is their ``throttle_cb``.
        """
        self._config, self._throttled = config, throttled
        self._cluster, self._suspects = cluster, suspects
        owner = weakref.ref(producer)
        super().__init__({n: Detour(self._made, Producer.close, owner) for n in range(1, 1 + count)})

    @property
    def open(self) -> list[Handle]:
        """The handles that are open."""
        return [handle for detour in self.values() if (handle := detour.open) is not None]

    def close(self) -> None:
        """Close the handles for good; what they have is sent first. Idempotent."""
        for detour in self.values():
            detour.close()

    def _made(self) -> Handle:
        """Return a new handle, which asks healthy brokers first: one that hangs would keep it waiting."""
        config = {name: self._config[name] for name in self._config.keys() - _OF_THE_FIRST}
        config["throttle_cb"] = self._throttled
        if first := healthy(self._cluster(), self._suspects()):
            config = {name: config[name] for name in config.keys() - _SERVERS}
            config["bootstrap.servers"] = ",".join(first)
        handle: Handle = Handle(with_one_request_in_flight(config))
        return handle
