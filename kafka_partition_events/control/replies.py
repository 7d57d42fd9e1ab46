"""What the tracker has replied to a command, as its records tell. Pure."""

from kafka_partition_events.control.records import Change, Given
from kafka_partition_events.control.requests import KEPT_REFUSALS, Answer, refusal
from kafka_partition_events.control.words import Verb


def reply_to(given: Given, change: Change | None) -> Answer | None:
    """Return what became of a command; None as long as nobody has taken it up.

    Args:
        given: The command, as it was appended.
        change: The change that it is about, as last read; None: there is none (yet).
    """
    if change is None:
        return None
    command, refusals = given.command, change.refusals
    for refused in refusals:
        if (refused.verb, refused.offset, refused.at_ms) == (command.verb, given.offset, given.at_ms):
            return Answer(change, refused)
    if command.verb is Verb.REQUEST:
        return _reply_to_request(given, change)
    # That it was refused may have been pushed out by later ones.
    unknown = len(refusals) == KEPT_REFUSALS and given.offset < refusals[0].offset
    return Answer(change) if change.was_given(given) and not unknown else None


def _reply_to_request(given: Given, change: Change) -> Answer | None:
    if given.command.spec != change.spec:
        return None  # the id is taken; the refusal is still to come
    if change.number or change.reason is None:
        return Answer(change)
    return Answer(change, refusal(given, change.reason, change.detail))
