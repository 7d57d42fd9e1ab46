"""Keeps two services from one outbox: each would journal and deliver everything once more."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.outbox.sqlite_file import private


@contextlib.contextmanager
def locked(outbox: str) -> Iterator[None]:
    """Hold the lock of an outbox, which ends with the process at the latest.

    Args:
        outbox: The outbox's path; the lock is a file beside it, which stays there.

    Raises:
        ConfigurationError: another process holds it.
        OutboxError: the file can't be made.
    """
    # The same file by another name is the same outbox. NAME.lock is its own, for a moment at a time.
    path = Path(f"{Path(outbox).resolve()}.observer")
    try:
        descriptor = private(str(path), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise OutboxError(f"{path}: {error.strerror or error}; does its directory exist?") from error
    with os.fdopen(descriptor) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"outbox.path: another kpe observe works on {outbox}; give each one an outbox of its own"
            ) from None
        yield
