"""A second handle of librdkafka's; see ``clients/standby.py`` for what it is good for."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message

from kafka_partition_events.clients.confluent.reports import OnDelivery
from kafka_partition_events.clients.confluent.settings import (
    only_errors_are_reported,
    with_one_request_in_flight,
)
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.standby import IDLE_S, StandbyMode, healthy
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import Cluster

_OF_THE_FIRST = (
    "stats_cb",
    "throttle_cb",
    "statistics.interval.ms",
    "bootstrap.servers",
    "metadata.broker.list",
)
"""Settings that are not the second handle's: whoever reads statistics expects one producer."""


def check_keys(mode: str, config: Mapping[str, Any], *, keys: bool) -> None:
    """Raise where keyed records are to take a second way and can't.

    Raises:
        ConfigurationError: there is none, or not every delivery is reported.
    """
    if keys and (mode == "off" or only_errors_are_reported(config)):
        raise ConfigurationError(
            'standby_keys needs a standby other than "off", and every delivery report, to know which keyed '
            "records are on their way: remove delivery.report.only.error"
        )


def waits_for_replicas(config: Mapping[str, Any]) -> bool:
    """Tell whether a producer's records wait for every in-sync replica, as librdkafka's do by default."""
    topic = config.get("default.topic.config") or {}
    names = ("acks", "request.required.acks")
    acks = next((source[name] for source in (config, topic) for name in names if name in source), "all")
    return str(acks) in {"all", "-1"}


class Standby:
    """The second handle of one producer. Thread-safe."""

    def __init__(
        self,
        mode: StandbyMode,
        config: Mapping[str, Any],
        cluster: Callable[[], Cluster | None],
        suspects: Callable[[], frozenset[int]],
    ) -> None:
        """Prepare a second way.

        Args:
            mode: Not ``"off"``.
            config: The producer's own settings.
            cluster: Returns the latest snapshot.
            suspects: Returns the brokers that are not to be asked for metadata.
        """
        self.open: Handle | None = None
        """The handle, as long as there is one."""
        self._config = config
        self._cluster = cluster
        self._suspects = suspects
        self._keep = mode == "warm"
        self._login: tuple[str, str] | None = None
        self._used_at = 0.0
        # Re-entrant: the garbage collector may run in here and close a producer.
        self._lock = threading.RLock()
        self._closed = False

    def handle(self) -> Handle | None:
        """Return the handle, which is made if need be; None when the producer is closed."""
        self._used_at = time.monotonic()
        if (handle := self.open) is not None:
            return handle
        with self._lock:
            if self.open is None and not self._closed:
                self.open = self._made()
            return self.open

    def log_in(self, username: str, password: str) -> None:
        """Use other credentials from now on."""
        self._login = (username, password)
        if (handle := self.open) is not None:
            handle.set_sasl_credentials(username, password)

    def rest(self) -> None:
        """Close the handle if nothing has needed it for a minute. Does not wait for it."""
        handle = self.open
        if handle is None or self._keep or time.monotonic() - self._used_at < IDLE_S or len(handle):
            return
        with self._lock:
            if self.open is handle:
                self.open = None
                threading.Thread(target=handle.close, name="kpe-standby-close", daemon=True).start()

    def close(self) -> None:
        """Close the handle for good; whoever does so has flushed it. Idempotent."""
        with self._lock:
            self._closed = True
            handle, self.open = self.open, None
        if handle is not None:
            handle.close()

    def _made(self) -> Handle:
        """Return a new handle, which asks healthy brokers first: one that hangs would keep it waiting."""
        theirs = {name: value for name, value in self._config.items() if name not in _OF_THE_FIRST}
        first = healthy(self._cluster(), self._suspects())
        names = ("bootstrap.servers", "metadata.broker.list")
        given = {name: self._config[name] for name in names if name in self._config}
        servers = {"bootstrap.servers": ",".join(first)} if first else given
        handle: Handle = Handle(with_one_request_in_flight({**theirs, **servers}))
        if self._login is not None:
            with contextlib.suppress(Exception):  # as on the first handle: it would have raised there
                handle.set_sasl_credentials(*self._login)
        return handle


class KeyOrder:
    """Keeps keyed records of a partition on one way as long as some are outstanding there. Thread-safe.

    Two handles know nothing of each other's order. So a partition's keyed records change ways only when none
    of them is on its way: all that were sent before are then delivered, or have failed, and no later one can
    overtake them.
    """

    def __init__(self) -> None:
        self._on: dict[tuple[str, int], list[int]] = {}  # the way, and how many are there
        self._lock = threading.RLock()  # the garbage collector may run in here and close a producer

    def enter(self, topic: str, partition: int, wanted: int) -> tuple[int, Callable[[], None]]:
        """Return the way that a record takes, and what is to be called when it is delivered or has failed.

        Args:
            topic: The record's topic.
            partition: The record's partition.
            wanted: The way that it would take if it had no key.
        """
        with self._lock:
            place = self._on.setdefault((topic, partition), [wanted, 0])
            if not place[1]:
                place[0] = wanted
            place[1] += 1
            return place[0], partial(self._leave, place, iter((1,)))

    def _leave(self, place: list[int], once: Iterator[int]) -> None:
        with self._lock:
            place[1] -= next(once, 0)  # a record that the client refused is sent again, with this callback


def after(leave: Callable[[], None], theirs: OnDelivery | None) -> OnDelivery:
    """Return a delivery callback that calls these two."""

    def report(error: KafkaError | None, message: Message) -> None:
        leave()
        if theirs is not None:
            theirs(error, message)

    return report
