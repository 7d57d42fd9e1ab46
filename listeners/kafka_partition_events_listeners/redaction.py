"""What is left out of entries that leave the house. Pure.

What is left out is null: formats pass over it, templates find the field, and the schemas allow it.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

from attrs import evolve

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.json_text import json_in
from kafka_partition_events.outbox import Entry

REDACTIONS: Final = ("hosts", "errors", "observers")
"""What may be left out: hosts and ports of brokers; texts of errors; names of observers.

Errors name hosts, so they go with these.
"""

_FIELDS: Final = {
    "hosts": frozenset({"host", "port", "error"}),
    "errors": frozenset({"error"}),
    "observers": frozenset({"observer"}),
}


def fields_of(redact: Iterable[str]) -> frozenset[str]:
    """Return the names of the fields to be left out.

    Args:
        redact: Some of `REDACTIONS`.

    Raises:
        ConfigurationError: there is no such thing to be left out.
    """
    parts = [redact] if isinstance(redact, str) else list(redact)
    if isinstance(redact, str) or set(parts) - _FIELDS.keys():
        raise ConfigurationError(f"redact must be a list of {', '.join(REDACTIONS)}, not {redact!r}")
    return frozenset().union(*(_FIELDS[part] for part in parts))


def redacted(entry: Entry, fields: frozenset[str]) -> Entry:
    """Return an entry whose data is without some fields, however deep; id and order stay.

    Args:
        entry: What is to be sent.
        fields: What `fields_of` has returned.

    Raises:
        ValueError: the entry is no JSON object, or one that is nested too deeply.
    """
    if not fields:
        return entry
    event = json_in(entry.body)
    if not isinstance(event, dict):
        raise ValueError("the entry is no JSON object")  # noqa: TRY004 - odd data, not a wrong argument
    try:
        return evolve(entry, body=json.dumps({**event, "data": _without(event.get("data"), fields)}).encode())
    except RecursionError:
        raise ValueError("the entry is nested too deeply") from None


def _without(value: Any, fields: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: None if name in fields else _without(each, fields) for name, each in value.items()}
    return [_without(each, fields) for each in value] if isinstance(value, list) else value
