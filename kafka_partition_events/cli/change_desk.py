"""What the commands of change control use of Kafka; tests hand in their own."""

from collections.abc import Collection
from typing import Protocol

from kafka_partition_events.control.group_state import Group
from kafka_partition_events.control.merge import Ledger
from kafka_partition_events.control.records import Command
from kafka_partition_events.metadata.cluster import TopicPartition


class Desk(Protocol):
    """The control topics of a cluster, and its consumer groups. Blocks for I/O; one thread at a time."""

    @property
    def ledger(self) -> Ledger:
        """What was read so far."""

    def read(self, timeout: float) -> None:
        """Read the control topics on, to their present ends.

        Raises:
            ControlTopicError: that can't be done, or not in time.
        """

    def send(self, command: Command, timeout: float) -> int:
        """Write a command; return when the broker has appended it, in milliseconds since 1970.

        Raises:
            ControlTopicError: that can't be done, or not in time.
        """

    def groups(self, topic: str, timeout: float) -> Collection[Group]:
        """Return the groups that read a topic, or have committed offsets of it.

        Raises:
            MetadataFetchError: nobody answers, or not for us.
        """

    def writers(self, partitions: Collection[TopicPartition], now_ms: int) -> int | None:
        """Return how many producers brokers know to be writing to partitions; None: not known."""

    def close(self) -> None:
        """Close the connections."""
