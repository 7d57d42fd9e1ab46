"""What is asked for: the specification of a change."""

import math
from typing import Final

from attrs import frozen

from kafka_partition_events.control.protocol.bounds import MOST_IDS
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import is_topic_name

EXPIRES_S: Final = 3600.0
"""How many seconds after the request the topic must have grown."""


@frozen(kw_only=True)
class Spec:
    """A topic gets more partitions. It never changes.

    Attributes:
        cluster_id: Kafka's id of the cluster.
        topic: The topic.
        topic_id: Its id; None where the brokers do not report it: then a re-created topic is not noticed.
        from_count: How many partitions it has. Compared when the change is requested.
        to_count: How many it is to have.
        execute: Whether the tracker creates the partitions, for which it needs the right to alter the topic.
        gate: Whether producers wait until the groups have a position on the new partitions.
        deadline_s: How many seconds after the topic has grown all must have followed, and a gate opens.

    Raises:
        ConfigurationError: the values do not fit each other.
    """

    cluster_id: str
    topic: str
    topic_id: str | None = None
    from_count: int
    to_count: int
    execute: bool = False
    gate: bool = False
    deadline_s: float = 600.0

    def __attrs_post_init__(self) -> None:
        """Check the values."""
        if problem := _problem(self):
            raise ConfigurationError(f"a change {problem}")

    @property
    def affected(self) -> PartitionSet:
        """The new partitions."""
        return PartitionSet.span(self.from_count, self.to_count)


def _problem(spec: Spec) -> str | None:
    if not is_topic_name(spec.topic):  # no client can ask for it, nor would another broker's answer differ
        return "needs the name of a topic"
    if not 0 < spec.deadline_s < math.inf:
        return "needs a deadline_s of more than 0 seconds"
    if not 1 <= spec.from_count < spec.to_count:
        return f"can't lead from {spec.from_count} to {spec.to_count} partitions"
    if spec.to_count - spec.from_count <= MOST_IDS:
        return None
    return (
        f"can't lead from {spec.from_count} to {spec.to_count} partitions at once, only by {MOST_IDS:,}: of "
        f"more Kafka creates a part and fails (KAFKA-19673); go in steps, the first one to "
        f"{spec.from_count + MOST_IDS}"
    )
