"""What an observer that leads has told as open, for the one that will lead after it. Pure.

Two observers see one outage at different moments, and one of them may not have seen it: its outbox is new,
its clock was wrong, or it takes for flapping what the other one took for two outages. Who was told of a
beginning is told of the end, whoever leads by then. So the leader tells the others, by cause, what it
has told as open and under which id; and who takes over compares that with its own incidents:

======================================  ==================================================================
the former leader, and this one         what the new leader does
======================================  ==================================================================
open there and here                     it goes on under the id that was told
open there, not here                    tells that it is over
told here, which reached nobody, and    tells it anew if it is down, else forgets it
not open there
told here, which is yet to be           nothing; what is open there under another id is told as over
delivered
======================================  ==================================================================
"""

import json
from datetime import datetime
from typing import Final

from attrs import field, frozen
from attrs.validators import and_, instance_of, matches_re, max_len

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.incidents.causes import Cause, cause_in
from kafka_partition_events.incidents.said import check_moment, moment_in, object_in
from kafka_partition_events.metadata.codec import encode_time

OPEN: Final = "open/"
"""How the shared topic calls what a leader has told as open: this and the cause."""


@frozen(kw_only=True)
class Opened:
    """An incident that was told as opened, and not as closed.

    Attributes:
        cause: Why.
        id: The incident's id, as it was told.
        opened_at: When it was opened.

    Raises:
        TypeError, ValueError: something else.
    """

    cause: Cause = field(validator=instance_of(Cause))
    id: str = field(validator=and_(instance_of(str), max_len(64), matches_re(r"[0-9a-f-]+")))
    opened_at: datetime = field(validator=instance_of(datetime))

    def __attrs_post_init__(self) -> None:
        """Refuse a moment that is none."""
        check_moment("opened_at", self.opened_at)

    @property
    def key(self) -> str:
        """How the shared topic calls it."""
        return f"{OPEN}{self.cause.subject or ''}"


def encode_opened(opened: Opened) -> bytes:
    """Return it as the shared topic keeps it."""
    told = {"cause": opened.cause.as_json(), "id": opened.id, "opened_at": encode_time(opened.opened_at)}
    return json.dumps(told).encode()


def decode_opened(value: bytes) -> Opened:
    """Return what JSON tells.

    Raises:
        ConfigurationError: it tells nothing of the kind.
    """
    try:
        told = object_in("an incident", value)
        opened_at = moment_in("opened_at", told["opened_at"])
        return Opened(cause=cause_in(told["cause"]), id=told["id"], opened_at=opened_at)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(f"it is no incident that was opened: {error}"[:300]) from error
