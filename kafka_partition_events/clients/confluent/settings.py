"""Reads and completes a producer's settings. What librdkafka refuses is left to it to explain."""

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from kafka_partition_events.clients.confluent.turns import LEAST_LINGER_S, linger_seconds, number
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.routing.hashing import HashName

_SAME: dict[HashName, tuple[str, ...]] = {
    "murmur2": ("murmur2_random", "murmur2"),
    "crc32": ("consistent_random", "consistent"),
    "fnv1a": ("fnv1a_random", "fnv1a"),
}
"""librdkafka's names of each hash; the first is the one to be set. ("random" is about unkeyed records.)"""

_LIBRDKAFKAS_OWN = "consistent_random"

REQUESTS_IN_FLIGHT = 5
"""The Java client's default, and the most that idempotence allows with either client."""

_IN_FLIGHT_NAMES = ("max.in.flight.requests.per.connection", "max.in.flight")


def merged(config: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as confluent-kafka puts them together.

    Raises:
        TypeError: as it does.
    """
    if config is None and more:
        return dict(more)
    if not isinstance(config, Mapping):
        raise TypeError("expected configuration dict")
    return {**config, **more}


def with_hash(config: Mapping[str, Any], partitioner: Partitioner) -> dict[str, Any]:
    """Make librdkafka and the partitioner place keys by one hash; return the config for that.

    A partitioner that was given no hash takes librdkafka's: what the setting ``partitioner`` means, or its
    default. So a plain producer with the same settings puts each key where we do.

    Raises:
        ConfigurationError: the setting and the partitioner name different ones.
    """
    legacy = config.get("default.topic.config") or {}
    chosen = config.get("partitioner", legacy.get("partitioner"))
    meant = chosen or _LIBRDKAFKAS_OWN
    theirs = next((name for name, names in _SAME.items() if meant in names), None)
    if theirs is None and meant != "random":
        return dict(config)  # librdkafka knows no such hash
    if theirs is not None and partitioner.keying.follows_client:
        partitioner.keying.use_hash_of_client(theirs, empty_is_no_key=meant == _LIBRDKAFKAS_OWN)
        return dict(config)
    ours = partitioner.keying.hash_name
    same = _SAME[ours]
    if chosen is None:
        return {**config, "partitioner": same[0]}
    if chosen in same:
        return dict(config)
    if theirs is None and partitioner.ignores_keys:
        return dict(config)
    if theirs is None:
        raise ConfigurationError(
            'the setting partitioner="random" spreads the records of one key. Remove it to keep them '
            "together; to spread them, use UniformStickyPartitioner"
        )
    raise ConfigurationError(
        f'the setting partitioner="{chosen}" places keys by another hash than the partitioner: '
        f'hash_name="{ours}". Records that librdkafka places itself, as long as there is no metadata, would '
        "go elsewhere than the later ones of the same key. To cure it, leave hash_name out (it then is "
        f'"{theirs}"), or set partitioner="{same[0]}". Keep the hash that the topic is written with: a '
        "change moves keys to other partitions (librdkafka's default is consistent_random, which is "
        'hash_name="crc32"; the Java client\'s is murmur2)'
    )


def with_requests_in_flight(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with at most `REQUESTS_IN_FLIGHT` a connection, if it has no linger to fill batches.

    librdkafka's default is a million: each record becomes a request at once, however long the broker takes
    for one, and a saturated cluster gets ever more requests instead of fuller ones. A number of the user's
    own is kept.
    """
    if linger_seconds(config) >= LEAST_LINGER_S or any(name in config for name in _IN_FLIGHT_NAMES):
        return dict(config)
    return {**config, _IN_FLIGHT_NAMES[0]: REQUESTS_IN_FLIGHT}


def with_one_request_in_flight(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a handle that begins to write amid faults: one request a connection if idempotent.

    A broker takes any sequence number from a producer that its partition does not know yet. So where the
    first request is refused (the leader is not one yet, too few replicas are in sync) and the second is taken
    a moment later, the first one's records are missing; and librdkafka (2.16), for which an answer to a later
    request proves the earlier ones, reports them as delivered, without an offset. With a second request only
    after the answer to the first that can't be.
    """
    if str(config.get("enable.idempotence", False)).lower() != "true":
        return dict(config)
    rest = {name: value for name, value in config.items() if name not in _IN_FLIGHT_NAMES}
    return {**rest, _IN_FLIGHT_NAMES[0]: 1}


def most_waiting(config: Mapping[str, Any]) -> int:
    """Return how many records a producer holds at most; librdkafka's 0 means no limit."""
    return int(number(config, ("queue.buffering.max.messages",), 100_000)) or sys.maxsize


def most_bytes(config: Mapping[str, Any]) -> float:
    """Return how many bytes of records a producer holds at most."""
    return number(config, ("queue.buffering.max.kbytes",), 1_048_576) * 1024


def delivery_limit(config: Mapping[str, Any]) -> float:
    """Return how many seconds a record has to be delivered; librdkafka's 0 means no limit."""
    legacy = config.get("default.topic.config") or {}
    names = ("message.timeout.ms", "delivery.timeout.ms")
    return number({**legacy, **config}, names, 300_000) / 1000 or math.inf


def only_errors_are_reported(config: Mapping[str, Any]) -> bool:
    """Tell whether librdkafka keeps good delivery reports to itself."""
    return str(config.get("delivery.report.only.error", False)).lower() == "true"


def with_error_callback(config: Mapping[str, Any], ours: Callable[[Any], None]) -> dict[str, Any]:
    """Return the config with an ``error_cb`` that calls ours, then the user's."""
    theirs = config.get("error_cb")
    if theirs is not None and not callable(theirs):
        return dict(config)

    def both(error: Any) -> None:
        ours(error)
        if theirs is not None:
            theirs(error)

    return {**config, "error_cb": both}
