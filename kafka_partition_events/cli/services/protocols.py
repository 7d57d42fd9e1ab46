"""What commands ask of the world outside; tests hand in their own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from attrs import frozen

from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.codec import Skipped
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Allowed, Approval, Command, Given
from kafka_partition_events.metadata.cluster import TopicPartition

FIRST_ANSWER_S = 7.0
"""How long the first answer may take: a wrong address must be told within 10 s, start-up included."""


@frozen(kw_only=True)
class SampleRequest:
    """Which records to read: about so many of the latest, for so many seconds at the most."""

    topic: str
    records: int
    timeout: float


class SampledRecord(NamedTuple):
    """A record, as far as it matters where it was placed."""

    partition: int
    offset: int
    key: bytes | None


@frozen(kw_only=True)
class Sample:
    """What was read.

    Attributes:
        partitions: How many the topic has.
        records: The records, in no order.
        offline: Partitions without a leader, which can't be read.
        timed_out: Whether there was no time for more.
    """

    partitions: int
    records: Sequence[SampledRecord]
    offline: int = 0
    timed_out: bool = False


Tell = Callable[[str], None]
Sampler = Callable[[Mapping[str, str], SampleRequest, Tell], Sample]


@frozen(kw_only=True)
class MinInsync:
    """``min.insync.replicas`` of topics.

    Attributes:
        known: What it is, by topic; one that is missing is unknown.
        trouble: Why some are unknown; None if none is.
    """

    known: Mapping[str, int]
    trouble: str | None = None


MinInsyncAsker = Callable[[Mapping[str, str], Sequence[str]], MinInsync]


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

    def approve(self, approval: Approval, timeout: float) -> None:
        """Write an approval.

        Raises:
            ControlTopicError: that can't be done, or not in time.
        """

    def commands(self, timeout: float) -> list[Given]:
        """Return all commands that are kept.

        Raises:
            ControlTopicError: that can't be done, or not in time.
        """

    def approvals(self, timeout: float) -> list[Allowed]:
        """Return all approvals that are kept; see `commands`."""

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
