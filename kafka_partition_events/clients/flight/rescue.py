"""What may be sent again of a producer's records, how much of it, and the headers that copies carry. Pure.

At least once: a time-out does not say whether the broker has the record. So every record that may be rescued
carries an id, for consumers to drop the second one (``examples/ordered_consumer.py``).
"""

from typing import Literal

from attrs import frozen

RescueMode = Literal["failed", "hedge"]
"""``"failed"``: a record that timed out is sent again. ``"hedge"``: also one that waits for a broker that has
become suspect, or stands behind one that does, before it fails (a *hedged request*)."""

ID_HEADER = "kpe-id"
"""The same for a record and all its copies: 16 hex digits of the producer, a dash, a number."""

Headers = list[tuple[str, str | bytes | None]]


@frozen(kw_only=True)
class RescueStats:
    """What a rescue has done since it began.

    Attributes:
        copies: Copies sent.
        saved: Records that a copy was delivered of first.
        withheld: Copies not sent, because a limit was reached or the client refused them.
        unheld: Records that were sent without the prospect of a copy, because 32 MiB were kept, or
            because the header with their id would have made them too large.
        held_bytes: Bytes kept now.
    """

    copies: int = 0
    saved: int = 0
    withheld: int = 0
    unheld: int = 0
    held_bytes: int = 0
