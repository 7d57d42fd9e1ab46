"""What somebody has decided about an incident: that he looks after it, or that it is over for him. Pure.

Each observer has incidents of its own, under ids of its own. What they share is the cause, and that it has
been down since before the decision: so that is what a decision names, and it is the same for all of them.
"""

import json
from datetime import datetime
from typing import Any, Final, Literal

from attrs import asdict, field, frozen
from attrs.validators import and_, in_, instance_of, max_len, min_len

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.incidents.said import check_moment, moment_in, object_in
from kafka_partition_events.metadata.codec import encode_time

DECISIONS: Final = "decision/"
"""How the outbox calls decisions: this, the verb and the cause. The last one of each counts."""

Verb = Literal["ack", "close"]

_TEXT: Final[list[Any]] = [instance_of(str), min_len(1), max_len(500)]


@frozen(kw_only=True)
class Decision:
    """Somebody's word about what is down for a cause.

    Attributes:
        verb: ``"ack"``: he looks after it, so nobody need be reminded. ``"close"``: nothing more is told of
            it, although it is not over.
        cause: The incident's `Cause.subject`; empty for the cluster as a whole.
        at: When; it is about what was down by then.
        author: Who.
        reason: Why.

    Raises:
        TypeError, ValueError: one of them is missing, empty, too long or something else.
    """

    verb: Verb = field(validator=in_(("ack", "close")))
    cause: str = field(validator=and_(instance_of(str), max_len(500)))
    at: datetime = field(validator=instance_of(datetime))
    author: str = field(validator=_TEXT)
    reason: str = field(validator=_TEXT)

    def __attrs_post_init__(self) -> None:
        """Refuse a moment that is none."""
        check_moment("at", self.at)

    @property
    def key(self) -> str:
        """How the outbox calls it."""
        return f"{DECISIONS}{self.verb}/{self.cause}"


def encode_decision(decision: Decision) -> bytes:
    """Return a decision as the outbox keeps it."""
    return json.dumps({**asdict(decision), "at": encode_time(decision.at)}).encode()


def decode_decision(value: bytes) -> Decision:
    """Return the decision that JSON tells.

    Raises:
        ConfigurationError: it tells none.
    """
    try:
        fields = object_in("a decision", value)
        return Decision(**{**fields, "at": moment_in("at", fields["at"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(f"it is no decision about an incident: {error}"[:300]) from error
