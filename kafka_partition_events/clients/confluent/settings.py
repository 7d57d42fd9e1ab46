"""Reads and completes a producer's settings; what is wrong with them librdkafka explains."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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

LEAST_LINGER_S = 0.005
"""Below that, lingering fills no batch."""

_IN_FLIGHT_NAMES = ("max.in.flight.requests.per.connection", "max.in.flight")


def linger_seconds(config: Mapping[str, Any]) -> float:
    """Return how long the producer holds records back to fill a batch."""
    return number(config, ("linger.ms", "queue.buffering.max.ms"), 5.0) / 1000


def number(config: Mapping[str, Any], names: Iterable[str], default: float) -> float:
    """Return the first of these settings that is there and a number; what is none librdkafka refuses."""
    try:
        return float(next((config[name] for name in names if name in config), default))
    except (TypeError, ValueError):
        return default


def merged(config: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as confluent-kafka puts them together, or raise `TypeError` as it does."""
    if config is None and more:
        return dict(more)
    if not isinstance(config, Mapping):
        raise TypeError("expected configuration dict")
    return {**config, **more}


def with_hash(config: Mapping[str, Any], partitioner: Partitioner) -> dict[str, Any]:
    """Make librdkafka and the partitioner place keys by one hash; return the config for that.

    A partitioner that was given no hash takes librdkafka's: the setting ``partitioner``, or its default. So a
    plain producer with the same settings puts each key where we do.

    Raises:
        ConfigurationError: the setting and the partitioner name different ones.
    """
    legacy = config.get("default.topic.config") or {}
    chosen = config.get("partitioner", legacy.get("partitioner"))
    meant = chosen or _LIBRDKAFKAS_OWN
    theirs = next((name for name, names in _SAME.items() if meant in names), None)
    if theirs is not None and partitioner.keying.follows_client:
        partitioner.keying.use_hash_of_client(theirs, empty_is_no_key=meant == _LIBRDKAFKAS_OWN)
        return dict(config)
    same = _SAME[ours := partitioner.keying.hash_name]
    if chosen is None:
        return {**config, "partitioner": same[0]}
    if chosen in same or (theirs is None and (meant != "random" or partitioner.ignores_keys)):
        return dict(config)  # or librdkafka knows no such hash
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

    librdkafka's default is a million: a saturated cluster gets ever more requests instead of fuller ones. A
    number of the user's own is kept.
    """
    if linger_seconds(config) >= LEAST_LINGER_S or any(name in config for name in _IN_FLIGHT_NAMES):
        return dict(config)
    return {**config, _IN_FLIGHT_NAMES[0]: REQUESTS_IN_FLIGHT}


def with_one_request_in_flight(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of a handle that begins to write amid faults: one request a connection if idempotent.

    A broker takes any sequence number from a producer that its partition does not know yet. Where it refuses
    the first request and takes the second, librdkafka (2.16), for which an answer to a later request proves
    the earlier ones, reports the first one's records as delivered, without an offset.
    """
    if not is_true(config, "enable.idempotence"):
        return dict(config)
    rest = {name: value for name, value in config.items() if name not in _IN_FLIGHT_NAMES}
    return {**rest, _IN_FLIGHT_NAMES[0]: 1}


def most_waiting(config: Mapping[str, Any]) -> int:
    """Return how many records a producer holds at most; librdkafka's 0 means no limit."""
    return int(number(config, ("queue.buffering.max.messages",), 100_000)) or sys.maxsize


def delivery_seconds(config: Mapping[str, Any]) -> float:
    """Return how long librdkafka tries to deliver a record; its 0 means without end."""
    return number(config, ("message.timeout.ms", "delivery.timeout.ms"), 300_000) / 1000 or math.inf


def acks(config: Mapping[str, Any]) -> str:
    """Return how many replicas acknowledge a record: ``"all"`` by default, ``"0"``, ``"1"``."""
    topic = config.get("default.topic.config") or {}
    names = ("acks", "request.required.acks")
    found = (given[name] for given in (config, topic) for name in names if name in given)
    meant = str(next(found, "all")).lower()
    return "all" if meant == "-1" else meant


def is_true(config: Mapping[str, Any], name: str) -> bool:
    """Return whether librdkafka takes a setting for true, which is false by default."""
    return str(config.get(name)).lower() in {"true", "t", "1"}


def with_callback(config: Mapping[str, Any], name: str, ours: Callable[[Any], None]) -> dict[str, Any]:
    """Return the config with a callback of this name that calls ours, then the application's."""
    theirs = config.get(name)
    if theirs is not None and not callable(theirs):
        return dict(config)

    def both(said: Any) -> None:
        ours(said)
        if theirs is not None:
            theirs(said)

    return {**config, name: both}
