"""What somebody has said, as JSON: an operator, or another observer. Who may write may write anything."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.json_text import json_in

LARGEST_BYTES: Final = 16_384
"""Of larger values nothing is understood."""


def object_in(what: str, value: bytes | str) -> Mapping[str, Any]:
    """Return the object that JSON tells; every text in it can be written again.

    Raises:
        ConfigurationError: it is larger than `LARGEST_BYTES`, or something else; the message says what.
    """
    if len(value) > LARGEST_BYTES:
        raise ConfigurationError(f"{what} must not be larger than {LARGEST_BYTES} bytes")
    try:
        found = json_in(value)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{what} must be JSON: {error}"[:300]) from error
    if not isinstance(found, Mapping):
        raise ConfigurationError(f"{what} must be a JSON object")
    if not all(map(str.isprintable, found)):
        raise ConfigurationError(f"{what} must have names that can be printed")
    return found


def moment_in(name: str, text: Any) -> datetime:
    """Return, in UTC, the moment that a text names.

    Raises:
        ConfigurationError: it names none, or not the same one everywhere.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{name} must be a moment such as 2026-11-20T10:00:00Z, not {text!r}"[:300]
        ) from error
    check_moment(name, moment)
    return moment.astimezone(UTC)


def check_moment(name: str, moment: datetime) -> None:
    """Refuse a moment that is not the same one everywhere.

    Raises:
        ConfigurationError: it has no time zone, or there is no such moment in UTC.
    """
    if moment.tzinfo is None:
        raise ConfigurationError(f"{name} must have a time zone, such as 2026-11-20T10:00:00Z")
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise ConfigurationError(
            f"{name} must be a moment of the years 1 to 9999 in UTC, not {moment}"
        ) from error
