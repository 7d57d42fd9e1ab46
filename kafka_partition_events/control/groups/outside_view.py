"""What the tracker is told of consumer groups and of writers that do not run the library."""

from collections.abc import Collection, Mapping
from typing import Protocol

from attrs import field, frozen

from kafka_partition_events.control.protocol.records import Ack, Change


@frozen(kw_only=True)
class Probe:
    """What one look has shown. A topic that is missing was not looked at, or nobody can tell.

    Attributes:
        readers: The groups with members that read a topic, by topic.
        writers: How many producers brokers know to be writing to it (DescribeProducers), by topic.
        acks: Answers for whole groups; only those that say something new.
        unseen: The groups that could not be described though they matter, or might: their coordinator is
            loading or moving, or we may not see them. One that does not exist is not among them.
        after: The ids of the changes that had happened before the look began. A group that began to read in
            the middle may have been missed by any sooner one.
    """

    readers: Mapping[str, frozenset[str]] = field(factory=dict)
    writers: Mapping[str, int] = field(factory=dict)
    acks: tuple[Ack, ...] = ()
    unseen: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()


class Prober(Protocol):
    """Looks at groups and writers from outside. One thread at a time."""

    def look(self, changes: Collection[Change], now_ms: int) -> Probe:
        """Look at what these open changes concern; blocks for I/O, a few seconds at most.

        It keeps what it needs between looks, for one: since when an assignment has stood unchanged. It can be
        thrown away at any time; another one takes longer to be sure, and nothing else.

        Args:
            changes: The open changes.
            now_ms: The time now by the brokers' clock.

        Raises:
            MetadataFetchError: nobody answers.
        """

    def close(self) -> None:
        """Release the connections."""
