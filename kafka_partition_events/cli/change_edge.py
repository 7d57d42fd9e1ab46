"""`Desk` on confluent-kafka."""

from collections.abc import Collection, Mapping

from kafka_partition_events.control.command_writer import CommandWriter
from kafka_partition_events.control.log_reader import ControlLog
from kafka_partition_events.control.merge import Ledger
from kafka_partition_events.control.plan import Group
from kafka_partition_events.control.readers import GroupReaders
from kafka_partition_events.control.records import Command


class ConfluentDesk:
    """Reads, writes and asks with clients of its own; see `Desk`."""

    def __init__(self, config: Mapping[str, str], prefix: str) -> None:
        """Connect in the background.

        Args:
            config: librdkafka's settings.
            prefix: What the names of the control topics begin with.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._log = ControlLog(config, prefix)
        self._writer = CommandWriter(config, prefix)
        self._readers = GroupReaders(config)

    @property
    def ledger(self) -> Ledger:
        """What was read so far."""
        return self._log.ledger

    def read(self, timeout: float) -> None:
        """Read the control topics on; see `Desk`."""
        self._log.read(timeout)

    def send(self, command: Command, timeout: float) -> int:
        """Write a command; see `Desk`."""
        return self._writer.send(command, timeout)

    def groups(self, topic: str, timeout: float) -> Collection[Group]:
        """Return the groups that read a topic; see `Desk`."""
        return self._readers.of(topic, timeout)

    def close(self) -> None:
        """Close the connections."""
        self._log.close()
        self._writer.close()
        self._readers.close()
