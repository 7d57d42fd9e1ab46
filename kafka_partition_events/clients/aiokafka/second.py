"""A second way over a producer's own client, by connections of its own; see ``clients/flight/detour.py``.

It needs no second bootstrap, and shares the client's metadata: it is one more accumulator and sender.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from kafka_partition_events.clients.aiokafka.calls import Calls
from kafka_partition_events.clients.aiokafka.private import (
    Lane,
    ProducerSettings,
    append_now,
    further_way,
    outstanding,
    takes_records,
    while_sending,
)
from kafka_partition_events.clients.flight.client import HandleClosedError
from kafka_partition_events.clients.flight.detour import Detour
from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.metadata.loop import LoopEndedError

GROUP: Final = "kpe-standby-1"
"""The group of its connections."""


class SecondAccumulator:
    """A further accumulator, and the records that it has (its length). On the loop, but for its length."""

    def __init__(self, lane: Lane, settings: ProducerSettings, made: "set[SecondAccumulator]") -> None:
        self._lane, self._made = lane, made
        self._accumulator, self._sender = further_way(lane, settings.sender)
        self._closing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return outstanding(self._accumulator)

    async def start(self) -> None:
        """Begin; of an idempotent producer, with a producer id of its own."""
        await self._sender.start()
        self._made.add(self)

    def knows(self, _topic: str) -> bool:
        """Return whether it takes records; what the client knows is known here."""
        return takes_records(self._accumulator)

    def send(self, record: Record, partition: int) -> "asyncio.Future[Any]":
        """Append a record; see `append_now`. Raises `HandleClosedError` also where its sender has failed."""
        if not takes_records(self._accumulator):
            raise HandleClosedError
        return append_now(self._accumulator, record, partition)

    async def flush(self) -> None:
        """Wait until all that it has by now is delivered, or has failed."""
        await self._accumulator.flush()

    async def close(self) -> None:
        """Send what it has, and hang up. Idempotent; goes on if who waits for it does not."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await while_sending(self._accumulator.close(), self._sender)
        await self._sender.close()
        self._lane.hang_up()
        self._made.discard(self)


def detour(
    client: Any,
    settings: ProducerSettings,
    suspects: Callable[[], frozenset[int]],
    calls: Calls,
    made: set[SecondAccumulator],
    owner: Callable[[], object],
) -> Detour[SecondAccumulator]:
    """Prepare a second way; none is made yet. Those that are not closed yet are in ``made``."""

    async def begin() -> SecondAccumulator:
        second = SecondAccumulator(Lane(client, GROUP, suspects), settings, made)
        await second.start()
        if calls.ended:  # it was begun, and its thread had not noted it yet, when all that ran was cancelled
            await second.close()
        return second

    def close(second: SecondAccumulator) -> None:
        with contextlib.suppress(LoopEndedError, TimeoutError):  # then its tasks have ended, or go on
            calls.run(second.close(), settings.limit_s)

    return Detour(lambda: calls.run(begin(), settings.limit_s), close, owner)
