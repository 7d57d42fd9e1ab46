"""What is posted."""

from collections.abc import Callable, Sequence

from attrs import frozen

from kafka_partition_events.outbox import Entry


@frozen(kw_only=True)
class Payload:
    """The body of a request, and what it is.

    Attributes:
        body: The bytes.
        content_type: Their media type.
    """

    body: bytes
    content_type: str


Writer = Callable[[Sequence[Entry]], Payload]
"""Writes entries; all but CloudEvents take one at a time."""

Selection = Callable[[Sequence[Entry]], Payload | None]
"""Writes entries; None if there is nothing to be posted of them."""
