"""Whether a topic's newest keyed records lie where its writer is about to put keys."""

import contextlib
import math
import time
from collections.abc import Mapping
from typing import Any, Final, get_args

from kafka_partition_events.diagnose.fingerprint import HashRule, Placement, fingerprint
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.spark.partitioner import HashName

_log = get_logger(__name__)

_RECORDS: Final = 1_000
_READ_S: Final = 5.0
_FIXED: Final = {
    "group.id": "kpe-spark",  # required by librdkafka; no member joins it, and nothing is committed
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
_done: set[tuple[str | None, str, HashName, int]] = set()


def compare(
    config: Mapping[str, Any], cluster_id: str | None, topic: str, name: HashName, count: int
) -> None:
    """Read the newest records, once in a process for a topic, and raise if they lie elsewhere.

    Args:
        config: How librdkafka connects.
        cluster_id: The cluster's.
        topic: The topic.
        name: The hash that keys are about to be placed by.
        count: Over how many partitions it is taken.

    Raises:
        ConfigurationError: most of the records were placed by another rule; it says which.
    """
    asked = (cluster_id, topic, name, count)
    if asked in _done:
        return
    placements, partitions = newest(config, topic)
    refuse_others(placements, partitions, topic, HashRule(name, count))
    _done.add(asked)


def refuse_others(placements: list[Placement], partitions: int, topic: str, wanted: HashRule) -> None:
    """Raise if placements follow other rules than the one that is wanted. Pure.

    Raises:
        ConfigurationError: they do.
    """
    findings = fingerprint(placements, partitions).findings
    rules = [one.rule for one in findings if one.rule is not None]
    if not rules or wanted in rules:  # nothing is known, or the topic grew a moment ago
        return
    found = rules[0]
    if found.hash_name not in get_args(HashName):
        raise ConfigurationError(
            f"the keys of {topic} are placed by {found.hash_name}, which Spark does not have: a key would be "
            f'on two partitions. If that is meant, set hash_name="{wanted.hash_name}"'
        )
    over = "" if found.partitions == partitions else f", key_partitions={found.partitions}"
    raise ConfigurationError(
        f"the keys of {topic} are placed by {found.hash_name} over {found.partitions} partitions, not by "
        f"{wanted.hash_name} over {wanted.partitions}: a key would be on two partitions. Set "
        f'hash_name="{found.hash_name}"{over}; or hash_name="{wanted.hash_name}" to write nonetheless'
    )


def newest(config: Mapping[str, Any], topic: str) -> tuple[list[Placement], int]:
    """Return the keys of a topic's newest records with their partitions, and how many partitions there are.

    What can't be read, for want of a right or of an online partition, is passed over, and logged.

    Raises:
        ConfigurationError: librdkafka refuses a setting.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition  # noqa: PLC0415 - an extra

    found: list[Placement] = []
    deadline = time.monotonic() + _READ_S
    try:
        reader = Consumer({**config, **_FIXED})
    except KafkaException as error:
        raise ConfigurationError(f"librdkafka refuses a setting: {error.args[0].str()}") from error
    with contextlib.closing(reader) as consumer:
        try:
            partitions = len(consumer.list_topics(topic, timeout=_READ_S).topics[topic].partitions)
            each = math.ceil(_RECORDS / max(1, partitions))
            begins = []
            for partition in range(partitions):
                left = max(0.1, deadline - time.monotonic())
                first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=left)
                if first < end:
                    begins.append(TopicPartition(topic, partition, max(first, end - each)))
            consumer.assign(begins)
            open_ = {begin.partition for begin in begins}
            while open_ and time.monotonic() < deadline:
                for message in consumer.consume(_RECORDS, timeout=0.2):
                    if message.error() is not None:
                        open_.discard(message.partition())
                    elif (key := message.key()) and (place := message.partition()) is not None:
                        found.append((key, place))
        except KafkaException as error:
            _log.warning("keys_not_compared", topic=topic, reason=str(error))
            return [], 1
    return found, partitions
