"""A record on its way: what the application gave, each attempt to deliver it, and its one outcome. Pure."""

from typing import Any, NamedTuple

from attrs import define, field

from kafka_partition_events.clients.flight.key_log import Mark
from kafka_partition_events.clients.flight.rescue import ID_HEADER, Headers

RECORD_BYTES = 1_090
HEADER_BYTES = 100
"""What keeping a record, and a header of its, takes beside the bytes, roughly; measured on CPython 3.11.
Without it small records would take 50 times what the limit says."""


class Record(NamedTuple):
    """What the application gave; its partition is left to the partitioner.

    ``outcome`` is what the application learns the outcome by: a delivery callback, or a future.
    """

    topic: str
    value: Any
    key: Any = None
    outcome: Any = None
    timestamp_ms: int | None = 0
    headers: Any = None


def as_list(headers: Any) -> Headers:
    """Return headers, in any form that the clients take, as a list of our own."""
    if not headers:
        return []
    return list(headers.items()) if hasattr(headers, "items") else list(headers)


@define(eq=False)
class Attempt:
    """One try to deliver a record: a partition, by a handle."""

    topic: str
    partition: int  # `UNASSIGNED` as long as only the client knows
    handle: int  # the number of the client's; 0 is the application's own
    tracked: bool = False  # the failure detector was given it
    is_copy: bool = False  # the record was sent before
    taken: bool = False  # by a handle; until then it can't be recalled, as it may be refused
    ends: bool = False  # its report decides the record's outcome
    after: bytes = b""  # the value of its ``kpe-after``
    key: bytes | None = None  # if `KeyOrder` counts it until it is reported; it sets None to recall it
    mark: Mark | None = None  # the record's place in the log of keys, if it is there
    rescuable: "RescuableRecord | None" = None  # the record, if it may get a copy

    @property
    def place(self) -> tuple[int, str, int]:
        """Handle, topic and partition."""
        return self.handle, self.topic, self.partition


@define(eq=False)
class RescuableRecord:
    """One record that may get a copy. `Copies` alone changes it, under its lock.

    ::

        in flight --times out, or is stuck--> copy is due: queued, then taken --handed over--> in flight
            |
            +-- arrives, or fails with no other attempt in flight and no copy due --> finished
    """

    given: Record  # serialized, its headers a list, with the time that copies are to have
    id: str
    since: float = 0.0  # when the application sent it; monotonic seconds
    origin: Any = None  # the context of the span that it was sent in
    in_flight: dict[Attempt, None] = field(factory=dict)
    tried: list[int] = field(factory=list)  # the partitions of its attempts
    copy_is_due: bool = False  # queued, or taken and neither in flight nor refused yet
    error: BaseException | None = None  # the latest
    finished: bool = False  # its outcome is decided
    purged: bool = False
    bare: bool = False  # sent without our header, which would make it too large
    size: int = field(init=False)  # bytes that are kept for it

    def __attrs_post_init__(self) -> None:
        """Count the bytes."""
        given = self.given
        headers = sum(HEADER_BYTES + len(name) + len(value or "") for name, value in given.headers)
        self.size = RECORD_BYTES + len(given.value or b"") + len(given.key or b"") + headers

    @property
    def key(self) -> bytes | None:
        """Its key. Copies of those with one follow one another: the latest attempt alone counts."""
        return self.given.key  # type: ignore[no-any-return]

    def to_send(self) -> Record:
        """Return the record as each attempt sends it, with the header that names it."""
        topic, value, key, _, timestamp_ms, headers = self.given
        name = [] if self.bare else [(ID_HEADER, self.id.encode())]
        return Record(topic, value, key, None, timestamp_ms, [*headers, *name])
