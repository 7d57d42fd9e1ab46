"""Whether a topic's newest keyed records lie where its writer is about to put keys."""

import contextlib
import math
import time
from collections.abc import Mapping
from typing import Any, Final, get_args

from kafka_partition_events.diagnose.fingerprint import HashRule, Placement, fingerprint
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.spark.errors import UnknownPartitionError
from kafka_partition_events.spark.partitioner import HashName

_log = get_logger(__name__)

_RECORDS: Final = 1_000
_READ_S: Final = 5.0
_TAIL: Final = -2_000  # librdkafka's offset of what is so many records before the end: this less their number
_NO_LEADER: Final = -1
_FIXED: Final = {
    "group.id": "kpe-spark",  # required by librdkafka; no member joins it, and nothing is committed
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",  # where there are fewer records than that
}
_AGAIN_S = 300.0  # where no key was found: each batch asks, and it takes a login, and seconds of a leader
_next: dict[tuple[str | None, str, HashName, int], float] = {}


def compare(
    config: Mapping[str, Any], cluster_id: str | None, topic: str, name: HashName, count: int
) -> None:
    """Read the newest records until some are found in this process, and raise if they lie elsewhere.

    Args:
        config: How librdkafka connects.
        cluster_id: The cluster's.
        topic: The topic.
        name: The hash that keys are about to be placed by.
        count: Over how many partitions it is taken.

    Raises:
        ConfigurationError: most of the records were placed by another rule; it says which.
        UnknownPartitionError: there is no such topic.
    """
    asked = (cluster_id, topic, name, count)
    if (now := time.monotonic()) < _next.get(asked, now):
        return
    placements, partitions = newest(config, topic)
    refuse_others(placements, partitions, topic, HashRule(name, count))
    _next[asked] = math.inf if placements else now + _AGAIN_S


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
        UnknownPartitionError: there is no such topic.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException  # noqa: PLC0415 - an extra

    try:
        reader = Consumer({**config, **_FIXED})
    except KafkaException as error:
        raise ConfigurationError(f"librdkafka refuses a setting: {error.args[0].str()}") from error
    with contextlib.closing(reader) as consumer:
        try:
            metadata = consumer.list_topics(topic, timeout=_READ_S).topics[topic]
        except KafkaException as error:
            _log.warning("keys_not_compared", topic=topic, reason=str(error))
            return [], 1
        if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UnknownPartitionError(f"there is no topic {topic}; check the name")
        leaders = {number: one.leader for number, one in metadata.partitions.items()}
        found, unread = _read(consumer, topic, leaders)
    if unread or metadata.error is not None:
        reason = metadata.error or "no leader, no right or no answer"
        _log.warning("keys_not_compared", topic=topic, partitions=sorted(unread), reason=str(reason))
    return found, max(1, len(leaders))


def _read(consumer: Any, topic: str, leaders: Mapping[int, int]) -> tuple[list[Placement], set[int]]:
    """Return the newest keys, and the partitions that could not be read."""
    from confluent_kafka import KafkaError, TopicPartition  # noqa: PLC0415 - an extra

    found, unread = list[Placement](), {*leaders}
    # One that is offline would not answer, and take all of the time.
    open_ = {partition for partition, leader in leaders.items() if leader != _NO_LEADER}
    begin, deadline = _TAIL - math.ceil(_RECORDS / max(1, len(leaders))), time.monotonic() + _READ_S
    consumer.assign([TopicPartition(topic, partition, begin) for partition in open_])
    while open_ and time.monotonic() < deadline:
        for message in consumer.consume(_RECORDS, timeout=0.2):
            partition, error = message.partition(), message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is named
                unread.discard(partition)
            if error is not None:
                open_.discard(partition)
            elif key := message.key():
                found.append((key, partition))
    return found, unread
