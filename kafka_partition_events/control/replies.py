"""What the tracker has replied to a command, as its records tell. Pure."""

from kafka_partition_events.control.records import Change, Command, Refusal
from kafka_partition_events.control.requests import Answer
from kafka_partition_events.control.words import Reason, Verb


def reply_to(command: Command, appended_ms: int, change: Change | None) -> Answer | None:
    """Return what became of a command; None as long as nobody has taken it up.

    Args:
        command: The command.
        appended_ms: When the broker appended it.
        change: The change that it is about, as last read; None: there is none (yet).
    """
    if change is None:
        return None
    for refusal in change.refusals:
        if (refusal.verb, refusal.at_ms) == (command.verb, appended_ms):
            return Answer(change, refusal)
    if command.verb is Verb.REQUEST:
        return _reply_to_request(command, change)
    return Answer(change) if change.obeyed_ms >= appended_ms else None


def _reply_to_request(command: Command, change: Change) -> Answer | None:
    if command.spec != change.spec:
        return None  # the id is taken; the refusal is still to come
    if change.number or change.reason is None:
        return Answer(change)
    return Answer(change, _rejection(change, change.reason))


def _rejection(change: Change, reason: Reason) -> Refusal:
    """Return the refusal of a change that was rejected as soon as it was requested."""
    by, at_ms = change.requested_by, change.requested_ms
    return Refusal(verb=Verb.REQUEST, actor=by, at_ms=at_ms, reason=reason, detail=change.detail)
