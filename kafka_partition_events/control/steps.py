"""How far Kafka lets a topic grow at once. Pure."""

from typing import Final

from kafka_partition_events.control.spec import Spec
from kafka_partition_events.control.words import Kind

MOST_AT_ONCE: Final = 10_000
"""How many partitions Kafka creates for one request.

KRaft's controller writes a growth in batches of so many records; when there is more than one it writes the
first one and fails (KAFKA-19673).
"""


def too_far(spec: Spec, count: int | None) -> str | None:
    """Return why Kafka would make a part of a growth only, and what to do; None: it makes all of it.

    Args:
        spec: The change.
        count: How many partitions the topic has now; None: not known.
    """
    if spec.kind is not Kind.INCREASE or count is None or spec.to_count - count <= MOST_AT_ONCE:
        return None
    return (
        f"Kafka creates {MOST_AT_ONCE:,} partitions for one request, and of {spec.to_count - count:,} not "
        f"all (KAFKA-19673); let topic {spec.topic} grow in steps, the first one to {count + MOST_AT_ONCE}"
    )
