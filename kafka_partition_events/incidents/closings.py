"""What somebody has decided about an incident: that it is over as far as he is concerned. Pure."""

import json
from typing import Any, Final

from attrs import asdict, field, frozen
from attrs.validators import instance_of, max_len, min_len

from kafka_partition_events.errors import ConfigurationError

CLOSING: Final = "close/"
"""How the outbox calls closings that the reader has not read yet: this and the incident's id."""

_TEXT: Final[list[Any]] = [instance_of(str), min_len(1), max_len(500)]


@frozen(kw_only=True)
class Closing:
    """An incident that is to be closed.

    Attributes:
        id: The incident's id.
        author: Who wants it.
        reason: Why.

    Raises:
        TypeError, ValueError: one of them is missing, empty or too long.
    """

    id: str = field(validator=_TEXT)
    author: str = field(validator=_TEXT)
    reason: str = field(validator=_TEXT)

    @property
    def key(self) -> str:
        """How the outbox calls it."""
        return f"{CLOSING}{self.id}"


def encode_closing(closing: Closing) -> bytes:
    """Return a closing as the outbox keeps it."""
    return json.dumps(asdict(closing)).encode()


def decode_closing(value: bytes) -> Closing:
    """Return the closing that JSON tells.

    Raises:
        ConfigurationError: it tells none.
    """
    try:
        return Closing(**json.loads(value))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"it is no closing of an incident: {error}"[:300]) from error
