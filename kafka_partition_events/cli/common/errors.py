"""What ends a command early, in one line."""

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.legible import legible

EXIT_DIFFERENT = 1
EXIT_ERROR = 2
EXIT_UNKNOWN = 3
_LONGEST = 2_000
_REFUSED: Final = re.compile(r"(\S+?)/(\d+): Connect to \S+ failed: Connection refused")
_UNRESOLVED: Final = re.compile(r"/(\d+): Failed to resolve '(\S+)': ([^(]+?) \(")
_HANDSHAKE: Final = re.compile(r"(_AUTHENTICATION|_SSL): (?:\w+://)?(\S+?)/\S+: (.+?)(?: \(after |\)?$)")


class CliError(KafkaPartitionEventsError):
    """A command can't do what it was asked. The message is one line that names the cause and the cure."""


def one_line(error: object) -> str:
    """Return a message as one line that can be read, whatever a client library or a user put into it."""
    return legible(" ".join(str(error).split()) or repr(error), _LONGEST)


def plainly(message: str) -> str:
    """Return what is wrong in one clause, where librdkafka repeats it in four; else the message as it is.

    An address that was typed was tried before librdkafka has it; what it fails at is one that a broker names.
    """
    if found := _REFUSED.search(message):
        address, broker = found.groups()
        return f"Connection refused by {address}: {_cure(broker)}"
    if found := _UNRESOLVED.search(message):
        broker, address, why = found.groups()
        return f"Failed to resolve {address}: {why}; {_cure(broker)}"
    if found := _HANDSHAKE.search(message):
        what = "TLS failed with" if found[1] == "_SSL" else "Login refused by"
        return f"{what} {found[2]}: {found[3]}; -v shows more"
    return message


def _cure(broker: str) -> str:
    which = f"broker {broker} advertises this address (advertised.listeners)"
    return f"{which}; is it up, and can this host reach it? -v shows more"


@contextlib.contextmanager
def needing(extras: str) -> Iterator[None]:
    """Report what to install where a module of an extra is missing.

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
