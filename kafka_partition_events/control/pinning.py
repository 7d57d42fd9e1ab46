"""Which partitions a consumer must begin to read at their beginning, because they are new. Pure.

With ``auto.offset.reset=latest`` a consumer begins where a partition ends when it is assigned. For a
partition that came with growth that is wrong: what was written there before, nobody will read. A partition is
new to a group that has not committed an offset for it, if

- it was not there when this consumer last got an assignment of its topic; or
- it lies beyond the count that an open change began with.

Anything else is left to ``auto.offset.reset``: an idle partition without a commit may be old, and its records
were skipped on purpose.
"""

from collections.abc import Collection, Iterable, Mapping

from kafka_partition_events.control.records import Change
from kafka_partition_events.control.words import Kind
from kafka_partition_events.metadata.cluster import TopicPartition

GROWTH = frozenset({Kind.INCREASE, Kind.OBSERVE})


def to_pin(
    assigned: Iterable[TopicPartition],
    committed: Collection[TopicPartition],
    counts_before: Mapping[str, int],
    changes: Iterable[Change],
) -> list[TopicPartition]:
    """Return the partitions whose beginning is to be committed as the group's position.

    Args:
        assigned: What the consumer was just given.
        committed: Those for which the group has an offset.
        counts_before: How many partitions each topic had at the last assignment; a topic that is missing was
            not known then.
        changes: Those of the topics as they are, not of others that had the same names.
    """
    first_new = {**counts_before}
    for change in changes:
        spec = change.spec
        if spec.topic is not None and spec.kind in GROWTH and not change.state.final:
            first_new[spec.topic] = min(spec.from_count, first_new.get(spec.topic, spec.from_count))
    return [
        tp
        for tp in assigned
        if tp not in committed and tp.partition >= first_new.get(tp.topic, tp.partition + 1)
    ]
