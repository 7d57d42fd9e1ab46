"""JSON of events, one flat object for each: recordings, and what commands print for programs. Pure."""

import reprlib
from typing import Any, Final

import attrs

from kafka_partition_events.events.codec import CodecError, encode, field_of, fields_of, object_in
from kafka_partition_events.metadata.events import EVENT_TYPES, Event, TopicRecreated

EVENT_KINDS: Final = {cls.kind: cls for cls in EVENT_TYPES}
"""The events that `decode_event` knows, by kind."""


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as a flat JSON object: its ``kind``, then its fields by their own names.

    ``observed_at`` is left out: a monotonic clock means nothing outside its process.
    """
    encoded: dict[str, Any] = {"kind": event.kind}
    for field in attrs.fields(type(event)):
        if field.name != "observed_at":
            encoded[field.name] = encode(getattr(event, field.name))
    if isinstance(event, TopicRecreated):
        encoded["inferred"] = event.inferred
    return encoded


def decode_event(document: object) -> Event:
    """Return the event that `encode_event` made this JSON object of; its ``observed_at`` is 0.

    Raises:
        CodecError: the object is something else, or its ``kind`` is not one of `EVENT_KINDS`.
    """
    item = object_in(document, "")
    cls = EVENT_KINDS.get(kind := field_of(item, "", "kind", str))
    if cls is None:
        raise CodecError(f"events of the kind {reprlib.repr(kind)} are not known here; update this library")
    event: Event = fields_of(cls, item, "")
    return event
