"""What ends a command early."""

from kafka_partition_events.errors import KafkaPartitionEventsError

EXIT_DIFFERENT = 1
EXIT_ERROR = 2
EXIT_UNKNOWN = 3


class CliError(KafkaPartitionEventsError):
    """A command can't do what it was asked. The message is one line that names the cause and the cure."""


def one_line(error: object) -> str:
    """Return a message as one line, whatever a client library put into it."""
    return " ".join(str(error).split()) or repr(error)
