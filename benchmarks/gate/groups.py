"""What brokers know of consumer groups."""

from collections.abc import Collection

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.gate.plan import OLD
from kafka_partition_events.clients.confluent.connection import COORDINATED_S

_LIMIT_S = 10.0


def unpositioned(admin: AdminClient, groups: Collection[str]) -> set[str]:
    """Return the groups that have not committed an offset on all old partitions of the topic of that name."""
    asked = {
        group: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, [TopicPartition(group, p) for p in range(OLD)])],
            request_timeout=COORDINATED_S,
        )[group]
        for group in groups
    }
    return {
        group
        for group, answer in asked.items()
        if any(tp.offset < 0 for tp in answer.result(_LIMIT_S).topic_partitions)
    }
