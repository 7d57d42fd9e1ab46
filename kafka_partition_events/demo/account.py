"""The account of every record: what callbacks said beside what the topics hold."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.demo.tape import DELIVERED, FAILED, UNANSWERED, Row

_LIMIT_S = 60.0


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


def reconcile(rows: Sequence[Row], stored: Mapping[int, int], *, must_answer: bool) -> Account:
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


def read_numbers(bootstrap_servers: str, topic: str, partitions: int) -> "Counter[int]":
    """Read a topic from beginning to end; return how often each record's number is in it.

    Raises:
        CliError: it could not be read to its end in time.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition  # noqa: PLC0415

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "kpe-demo",  # required, though nobody joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
        return Counter(int(value) for value in _values(consumer, topic, partitions))
    finally:
        consumer.close()


def _values(consumer: Any, topic: str, partitions: int) -> Iterator[bytes]:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    deadline = time.monotonic() + _LIMIT_S
    ended: set[int] = set()
    while len(ended) < partitions:
        for message in consumer.consume(10_000, timeout=0.2):
            if (error := message.error()) is None:
                yield message.value()
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - so it is named
                ended.add(message.partition())
        if time.monotonic() > deadline:
            raise CliError(f"topic {topic} could not be read to its end within {_LIMIT_S:.0f} s")
