"""What ends a command early."""

import contextlib
from collections.abc import Iterator

from kafka_partition_events.control.protocol.legible import legible
from kafka_partition_events.errors import KafkaPartitionEventsError

EXIT_DIFFERENT = 1
EXIT_ERROR = 2
EXIT_UNKNOWN = 3
_LONGEST = 2_000


class CliError(KafkaPartitionEventsError):
    """A command can't do what it was asked. The message is one line that names the cause and the cure."""


def one_line(error: object) -> str:
    """Return a message as one line that can be read, whatever a client library or a user put into it."""
    return legible(" ".join(str(error).split()) or repr(error), _LONGEST)


@contextlib.contextmanager
def needing(extras: str) -> Iterator[None]:
    """Tell what to install where a module is missing that comes with an extra.

    Raises:
        CliError: one is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("kafka_partition_events"):
            raise
        raise CliError(
            f'this needs {error.name}; run: pip install "kafka-partition-events[{extras}]"'
        ) from error
