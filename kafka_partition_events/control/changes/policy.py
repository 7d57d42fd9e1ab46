"""What a tracker lets be done. Pure.

Who may write to ``kpe.commands`` may ask for anything, and the tracker has the right to alter topics. So what
it does with that right is decided here, and not by who asks.
"""

import re
from typing import Final

from attrs import frozen

from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.topics import PREFIX, control_topics
from kafka_partition_events.metadata.cluster import INTERNAL_TOPICS

_KAFKAS_OWN: Final = INTERNAL_TOPICS | {"__cluster_metadata", "__remote_log_metadata", "__share_group_state"}
_CONTRACTS: Final = {
    "Schema Registry": re.compile(r"_schemas"),
    "Kafka Connect": re.compile(r"(.+[._-])?connect[._-](configs|offsets|status)"),
    "a Kafka Streams application": re.compile(r".+-(changelog|repartition)"),
}
"""Topics whose number of partitions their owner relies on, by name."""


@frozen(kw_only=True)
class Policy:
    """What is allowed. Nothing that a request says makes it wider.

    Attributes:
        may_grow: The names of topics for which the tracker creates partitions; a pattern for the whole name.
        max_partitions: How many partitions a topic may have in all; None: as many as Kafka takes.
        prefix: What the names of the control topics begin with: they never change, nor do Kafka's own.
    """

    may_grow: str = ".*"
    max_partitions: int | None = None
    prefix: str = PREFIX

    def forbids(self, spec: Spec, count: int | None, topic_id: str | None) -> str | None:
        """Return why a change of a topic as it is now must not be made; None: it may."""
        if (why := fixed(spec.topic, self.prefix) or self._bounds(spec)) is not None:
            return why
        if count is None:
            return f"there is no topic {spec.topic}"
        if spec.topic_id is not None and topic_id not in {None, spec.topic_id}:
            return f"topic {spec.topic} has the id {topic_id}, not {spec.topic_id}"
        if count != spec.from_count:
            return f"topic {spec.topic} has {count} partitions, not {spec.from_count}"
        return None

    def _bounds(self, spec: Spec) -> str | None:
        if spec.execute and not re.fullmatch(self.may_grow, spec.topic):
            return f"the tracker may grow {self.may_grow}, not {spec.topic} (policy.may_grow)"
        if self.max_partitions is not None and spec.to_count > self.max_partitions:
            return f"{spec.to_count} partitions are more than {self.max_partitions} (policy.max_partitions)"
        return None


DEFAULT_POLICY: Final = Policy()


def fixed(topic: str, prefix: str = PREFIX) -> str | None:
    """Return why a topic must keep its number of partitions; None: it need not, as far as its name says."""
    if topic in _KAFKAS_OWN:
        return f"{topic} is Kafka's own topic: its partitions are never changed"
    if topic in {own.name for own in control_topics(prefix)}:
        return f"{topic} is a topic of change control itself: its partitions are never changed"
    for owner, name in _CONTRACTS.items():
        if name.fullmatch(topic):
            return f"{topic} is a topic of {owner}, which relies on its number of partitions"
    return None
