"""What may be sent again of a producer's records, how much of it, and the headers that copies carry. Pure.

At least once: a time-out does not say whether the broker has the record. So every record that may be rescued
carries an id, for consumers to drop the second one (``examples/ordered_consumer.py``).
"""

from typing import Literal, get_args

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError

RescueMode = Literal["failed", "hedge"]
"""``"failed"``: a record that timed out is sent again. ``"hedge"``: also one that waits for a broker that has
become suspect, or stands behind one that does, before it fails (a *hedged request*)."""

ID_HEADER = "kpe-id"
"""The same for a record and all its copies: 16 hex digits of the producer, a dash, a number."""

Headers = list[tuple[str, str | bytes | None]]


@frozen(kw_only=True)
class RescueLimits:
    """How much a rescue may send and keep.

    What is beyond gets no copy, and is counted. But a stuck record that only lacks budget (``share`` and
    ``burst``) waits for its turn: each record that is sent adds to it.

    Attributes:
        share: Copies per record sent, on average.
        burst: Copies at once at the most, when there were none for a while; and no more than the producer
            has sent in the last 5 s, or 100: see `CopyBudget`.
        attempts: How often one record is sent at most, the original included. Until the right broker is
            suspected, a copy may need the one that hangs, too: once on each of three handles, and one more.
        held_bytes: Memory for the records in flight that are kept for a copy: values, headers, and about
            1 kB for each record. One counts until the application has its outcome. The original of a copy
            that arrived keeps its memory, beyond this limit, until the client gives it up: at the latest
            after ``message.timeout.ms`` or ``delivery_timeout_ms``.
    """

    share: float = 0.1
    burst: int = 10_000
    attempts: int = 4
    held_bytes: int = 32 * 1024 * 1024


@frozen(kw_only=True)
class RescueStats:
    """What a rescue has done since it began.

    Attributes:
        copies: Copies sent.
        saved: Records that a copy was delivered of first.
        withheld: Copies not sent, because a limit was reached or the client refused them.
        unheld: Records that were sent without the prospect of a copy, because ``held_bytes`` was reached, or
            because the header with their id would have made them too large.
        held_bytes: Bytes kept now.
    """

    copies: int = 0
    saved: int = 0
    withheld: int = 0
    unheld: int = 0
    held_bytes: int = 0


def checked_mode(
    mode: str | None, *, transaction: str | None, acks: str, is_reported: bool
) -> RescueMode | None:
    """Return the mode, or raise `ConfigurationError` where the producer's settings leave nothing to rescue.

    ``transaction``: the setting that makes the producer transactional; None when it is not.
    ``is_reported``: whether each delivery is reported to the producer.
    """
    if mode is None:
        return None
    if mode not in get_args(RescueMode):
        raise ConfigurationError(f"rescue must be one of {', '.join(get_args(RescueMode))}, not {mode!r}")
    why = None
    if transaction is not None:
        why = (
            f"{transaction}: a copy may arrive beside its original, and a transaction promises exactly one. "
            "Leave rescue out; abort and retry a transaction that fails"
        )
    elif acks == "0":
        why = (
            "acks=0: no broker acknowledges a record then, so a lost one counts as delivered and is never "
            "sent again. Use acks=1 or acks=all"
        )
    elif not is_reported:
        why = (
            "delivery.report.only.error: it needs every delivery report to know which records are stuck. "
            "Remove the setting"
        )
    if why is not None:
        raise ConfigurationError(f"rescue can't be used with {why}")
    return mode  # type: ignore[return-value]
