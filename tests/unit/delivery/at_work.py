"""A deliverer at work: its outbox, its clock, and a sink that follows a script."""

import random
from typing import Any

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.outbox import Deliverer, DeliveryError, RetryPolicy, SqliteOutbox, Write
from kafka_partition_events.testing.clock import ManualClock
from tests.outbox_kit import NOW, ScriptedSink, append, ids, scratch

LONG_S = 10_000.0
"""Longer than any back-off."""


def failure(reason: str = "timeout", **facts: Any) -> DeliveryError:
    return DeliveryError(f"it was {reason}", reason=reason, **facts)


class HalfWay(random.Random):
    """No dice."""

    def random(self) -> float:
        return 0.5


class FragileOutbox(SqliteOutbox):
    """An outbox that may take no cursor any more, or be damaged."""

    full = False
    damaged = False

    def write(self, write: Write, /) -> None:
        if self.full and write.cursors:
            raise OutboxError("full")
        super().write(write)

    def refuse(self, reader: str, entry: Any, reason: str) -> None:
        if self.full:
            raise OutboxError("full")
        super().refuse(reader, entry, reason)

    def read(self, reader: str, limit: int) -> Any:
        if self.damaged:
            raise OutboxError("damaged")
        return super().read(reader, limit)


class Delivery:
    """A deliverer at work, its outbox, its clock, and the sink at its other end."""

    def __init__(self, *script: Exception | None, waiting: str = "", **policy: Any) -> None:
        self.clock = ManualClock(wall=NOW)
        self.outbox = scratch(FragileOutbox, clock=self.clock)
        self.sink = ScriptedSink(*script)
        if waiting:
            append(self.outbox, *waiting)
        self.deliverer = Deliverer(
            self.outbox,
            self.sink,
            retry=RetryPolicy(**policy),
            clock=self.clock,
            rng=HalfWay(),
        )
        self.deliverer.start()

    def waiting(self) -> list[str]:
        return ids(self.outbox.read("scripted", 100))

    def pause(self) -> None:
        """Return when the deliverer waits for time to pass."""
        self.clock.wait_for_waiters()

    def later(self, *entries: Any) -> None:
        """Append entries while it has nothing to do, and let it read the outbox."""
        self.pause()
        append(self.outbox, *entries)
        self.clock.advance(0.5)

    def retry(self) -> list[str]:
        """Let a back-off pass, and return what is tried then."""
        self.pause()
        self.clock.advance(LONG_S)
        return self.sink.next_call()
