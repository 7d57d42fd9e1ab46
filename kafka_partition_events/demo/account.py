"""The account of every record: what callbacks said beside what the topics hold. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import frozen

from kafka_partition_events.demo.tape import DELIVERED, FAILED, UNANSWERED, Taped


@frozen(kw_only=True)
class Account:
    """One producer's records.

    Attributes:
        sent: How many it was given.
        delivered, failed, unanswered: What callbacks said of them; of the last, nothing.
        found: How many of them are in the topic.
        copies: What is there beyond the first of a record.
        missing: Delivered, say the callbacks, and not in the topic. There must be none.
        unknown: In the topic, and never sent. There must be none.
        found_failed, found_unanswered: There, although no callback said so: the answer was lost.
        must_answer: Whether a record without an answer is an error. Of ours it is; what a client does by
            itself is not ours to judge.
    """

    sent: int
    delivered: int
    failed: int
    unanswered: int
    found: int
    copies: int
    missing: int
    unknown: int
    found_failed: int
    found_unanswered: int
    must_answer: bool

    @property
    def adds_up(self) -> bool:
        """Whether what was said is what is there."""
        return not (self.missing or self.unknown or (self.must_answer and self.unanswered))

    def differences(self) -> list[str]:
        """Return in words in what they differ."""
        said = {
            "delivered, and NOT IN THE TOPIC": self.missing,
            "in the topic, and never sent": self.unknown,
            "failed, and in the topic all the same": self.found_failed,
            "never answered": self.unanswered,
            "of these in the topic": self.found_unanswered,
            "copies, by a rescue or a retry": self.copies,
        }
        return [f"{count:,} {what}" for what, count in said.items() if count]


def reconcile(rows: Sequence[Taped], stored: Mapping[int, int], *, must_answer: bool) -> Account:
    """Compare what callbacks said with what is there.

    Args:
        rows: All records of a producer, by number.
        stored: Number -> how often it is in the topic.
        must_answer: See `Account`.
    """
    by_outcome = Counter(row.outcome for row in rows)

    def found(outcome: int) -> int:
        return sum(row.outcome == outcome and number in stored for number, row in enumerate(rows))

    return Account(
        sent=len(rows),
        delivered=by_outcome[DELIVERED],
        failed=by_outcome[FAILED],
        unanswered=by_outcome[UNANSWERED],
        found=sum(number < len(rows) for number in stored),
        copies=sum(count - 1 for count in stored.values()),
        missing=by_outcome[DELIVERED] - found(DELIVERED),
        unknown=sum(number >= len(rows) for number in stored),
        found_failed=found(FAILED),
        found_unanswered=found(UNANSWERED),
        must_answer=must_answer,
    )
