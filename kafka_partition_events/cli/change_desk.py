"""What the commands of change control use of Kafka; tests hand in their own."""

from collections.abc import Collection, Mapping
from typing import Protocol

from kafka_partition_events.control.codec import Skipped
from kafka_partition_events.control.group_state import Group
from kafka_partition_events.control.merge import Ledger
from kafka_partition_events.control.records import Command, Given
from kafka_partition_events.metadata.cluster import TopicPartition


class Desk(Protocol):
    """The control topics of a cluster, and its consumer groups. Blocks for I/O; one thread at a time."""

    @property
    def ledger(self) -> Ledger:
        """What was read so far."""

    def read(self, timeout: float, topics: Collection[str]) -> None:
        """Read these of the control topics on, to their present ends.

        Raises:
            ControlTopicError: that can't be done, or not in time.
        """

    def send(self, command: Command, timeout: float) -> Given:
        """Write a command; return it as it was appended.

        Raises:
            ControlTopicError: that can't be done, or not in time.
        """

    def groups(self, topic: str, timeout: float) -> Mapping[str, Group | None]:
        """Return the groups that read a topic, or have committed offsets of it; None: it can't be seen.

        Raises:
            MetadataFetchError: nobody answers, or not for us.
        """

    def writers(self, partitions: Collection[TopicPartition], now_ms: int) -> int | None:
        """Return how many producers brokers know to be writing to partitions; None: not known."""

    def close(self) -> None:
        """Close the connections."""


class Log(Protocol):
    """The control topics, and what in them nobody takes. Blocks for I/O; one thread at a time."""

    @property
    def skipped(self) -> Skipped:
        """The records that were passed over so far."""

    def read(self, timeout: float) -> None:
        """Read changes, leases and acks on, to their present ends.

        Raises:
            ControlTopicError: that can't be done, or not in time.
        """

    def read_commands(self, timeout: float) -> object:
        """Read all commands that there are; see `read`."""

    def close(self) -> None:
        """Close the connections."""
