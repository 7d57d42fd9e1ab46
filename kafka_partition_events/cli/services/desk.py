"""`Desk` on confluent-kafka."""

from collections.abc import Collection, Mapping

from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.index import GroupIndex
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.groups.writers import Writers
from kafka_partition_events.control.operate.commands import CommandWriter
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Allowed, Approval, Command, Given
from kafka_partition_events.metadata.cluster import TopicPartition


class ConfluentDesk:
    """Reads, writes and asks with clients of its own; see `Desk`."""

    def __init__(self, config: Mapping[str, str], control: Mapping[str, str], prefix: str) -> None:
        """Connect in the background.

        Args:
            config: librdkafka's settings for the cluster that is changed.
            control: The same for the one with the control topics.
            prefix: What the names of the control topics begin with.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._log = ControlLog(control, prefix)
        self._writer = CommandWriter(control, prefix)
        self._groups = GroupAdmin(config)
        self._writers = Writers(config)

    @property
    def ledger(self) -> Ledger:
        """What was read so far."""
        return self._log.ledger

    def read(self, timeout: float, topics: Collection[str]) -> None:
        """Read control topics on; see `Desk`."""
        self._log.read(timeout, topics)

    def send(self, command: Command, timeout: float) -> Given:
        """Write a command; see `Desk`."""
        return self._writer.send(command, timeout)

    def approve(self, approval: Approval, timeout: float) -> None:
        """Write an approval; see `Desk`."""
        self._writer.approve(approval, timeout)

    def commands(self, timeout: float) -> list[Given]:
        """Return all commands that are kept; see `Desk`."""
        return self._log.read_commands(timeout)

    def approvals(self, timeout: float) -> list[Allowed]:
        """Return all approvals that are kept; see `Desk`."""
        return self._log.read_approvals(timeout)

    def groups(self, topic: str, timeout: float) -> Mapping[str, Group | None]:
        """Return the groups that read a topic; see `Desk`."""
        names = self._groups.groups(timeout)
        found = self._groups.describe(names, timeout)
        topics = self._groups.topics([topic], timeout).values()
        places = [each.tp for info in topics for each in info.partitions]
        offsets = self._groups.committed(dict.fromkeys(found, places), timeout)
        commits = {name: frozenset(tp.topic for tp in those) for name, those in offsets.items()}
        index = GroupIndex()
        index.scan(names, found.values(), commits)
        return {name: found.get(name) for name in index.of(topic)}

    def writers(self, partitions: Collection[TopicPartition], now_ms: int) -> int | None:
        """Return how many producers write to partitions; see `Desk`."""
        return self._writers.count(partitions, now_ms)

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        self._writer.close()
        self._groups.close()
        self._writers.close()
