"""What a tracker lets be done, whoever asks. Pure.

Who may write to ``kpe.commands`` may ask for anything, and the tracker has the right to alter topics. So what
it does with that right is decided here, and not by who asks.
"""

import re
from typing import Final

from attrs import frozen

from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.topics import PREFIX, control_topics
from kafka_partition_events.control.protocol.vocabulary import Execute, Kind
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import INTERNAL_TOPICS

_KAFKAS_OWN: Final = INTERNAL_TOPICS | {"__cluster_metadata"}


@frozen(kw_only=True)
class Policy:
    """What is allowed. Nothing that a request says makes it wider.

    Attributes:
        may_grow: The names of topics for which the tracker creates partitions; a pattern for the whole name.
        max_partitions: How many partitions a topic may have in all; None: as many as Kafka takes.
        max_factor: To how many times its partitions a topic may grow at once; None: any.
        approval: The names of topics of which each change needs a second person; None: those that were
            requested so.
        prefix: What the names of the control topics begin with: they never change, nor do Kafka's own.

    Raises:
        ConfigurationError: a pattern is none.
    """

    may_grow: str = ".*"
    max_partitions: int | None = None
    max_factor: float | None = None
    approval: str | None = None
    prefix: str = PREFIX

    def __attrs_post_init__(self) -> None:
        """Check the patterns."""
        for name in ("may_grow", "approval"):
            try:
                re.compile(getattr(self, name) or "")
            except re.error as error:
                raise ConfigurationError(f"policy.{name} is no regular expression: {error}") from error

    def forbids(self, spec: Spec) -> str | None:
        """Return why a change must not be made, and who could allow it; None: it may."""
        topic = spec.topic or ""
        if topic in _KAFKAS_OWN:
            return f"{topic} is Kafka's own topic: its partitions are never changed"
        if topic in {own.name for own in control_topics(self.prefix)}:
            return f"{topic} is a topic of change control itself: its partitions are never changed"
        return self._too_much(spec) if spec.kind is Kind.INCREASE else None

    def _too_much(self, spec: Spec) -> str | None:
        if spec.execute is Execute.TRACKER and not re.fullmatch(self.may_grow, spec.topic or ""):
            return f"the tracker may grow {self.may_grow}, not {spec.topic} (policy.may_grow)"
        if self.max_partitions is not None and spec.to_count > self.max_partitions:
            return f"{spec.to_count} partitions are more than {self.max_partitions} (policy.max_partitions)"
        if self.max_factor is not None and spec.to_count > self.max_factor * spec.from_count:
            return f"{spec.to_count} is more than {self.max_factor:g} x {spec.from_count} (policy.max_factor)"
        return None

    def needs_approval(self, spec: Spec) -> bool:
        """Tell whether a second person must approve a change."""
        if spec.needs_approval or self.approval is None:
            return spec.needs_approval
        return re.fullmatch(self.approval, spec.topic or "") is not None
