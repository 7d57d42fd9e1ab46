"""Which topics the user wants to see."""

import re
from collections.abc import Callable

from attrs import evolve

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import Event, MetadataRejected, Resync, TopicEvent


class TopicFilter:
    """The topics that the user wants to see: a regular expression that must match the whole name.

    The whole name, as with Kafka's own tools: ``--topics orders`` is one topic, ``--topics 'orders.*'`` is a
    family. Events that concern no single topic always pass.
    """

    def __init__(self, pattern: str | None) -> None:
        """Make a filter; None lets everything pass.

        Raises:
            CliError: it is not a regular expression.
        """
        self._pattern = pattern
        self._matches: Callable[[str], object] = lambda _name: True
        if pattern is not None:
            try:
                self._matches = re.compile(pattern).fullmatch
            except (re.error, ValueError, OverflowError, RecursionError) as error:
                raise CliError(f"--topics {pattern!r} is not a regular expression: {error}") from None

    def __str__(self) -> str:
        """Return the expression as it was typed."""
        return repr(self._pattern)

    def wants(self, event: Event) -> bool:
        """Return whether an event is to be shown."""
        topic = event.topic if isinstance(event, TopicEvent | MetadataRejected) else None
        return topic is None or bool(self._matches(topic))

    def wants_subject(self, subject: str | None) -> bool:
        """Return whether a CloudEvent's subject is to be shown: of all there are, or of a wanted topic."""
        if self._pattern is None:
            return True
        kind, _, rest = (subject or "").partition("/")
        return kind == "topic" and bool(self._matches(rest.partition("/")[0]))

    def narrowed(self, cluster: Cluster) -> Cluster:
        """Return the snapshot with the wanted topics only."""
        return Cluster(
            nodes=cluster.nodes,
            by_topic=[info for name, info in cluster.by_topic.items() if self._matches(name)],
            cluster_id=cluster.cluster_id,
            generation=cluster.generation,
        )

    def shown(self, event: Event) -> Event | None:
        """Return the event as it is to be shown, None when it is not."""
        if isinstance(event, Resync):
            return evolve(event, cluster=self.narrowed(event.cluster))
        return event if self.wants(event) else None
