"""Asks a partitioner in a client's place, for one record at a time."""

import random
from collections.abc import Callable, Collection
from typing import Any, Final

from attrs import define, field

from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.sticky import StickyPartitioner

_DRAWS: Final = 8  # to find a partition where a record has not been; with few partitions there may be none


@define(eq=False)
class Choice:
    """Chooses partitions of serialized records, as far as the client does not ask the partitioner itself."""

    _partitioner: Partitioner
    _known: Any  # the client's metadata, as kafka-python has it: decides where there is no snapshot
    # Takes a record without a key and the partition that it sticks to, and returns where it goes: asked for
    # partitioners that have to be informed when a batch ends (KIP-480).
    _take_turns: Callable[[Record, int], int]
    _sticky: StickyPartitioner | None = field(init=False)

    @_sticky.default
    def _as_sticky(self) -> StickyPartitioner | None:
        on_new_batch = getattr(type(self._partitioner), "on_new_batch", None)
        is_sticky = on_new_batch is StickyPartitioner.on_new_batch
        return self._partitioner if is_sticky and isinstance(self._partitioner, StickyPartitioner) else None

    def known(self, topic: str) -> Any:
        """Return the client's metadata if it has a topic; else None."""
        return None if self._known.partitions_for_topic(topic) is None else self._known

    def move_on(self, topic: str, partition: int) -> bool:
        """Have records without a key stick to another partition; return whether they stuck to this one."""
        return self._sticky is not None and self._sticky.move_on(topic, partition, self.known(topic))

    def __call__(self, record: Record, tried: Collection[int] = ()) -> int:
        """Return the partition of a record; see `Client.choose`."""
        topic, value, key = record.topic, record.value, record.key
        choose = self._partitioner.partition
        if key is not None and (home := choose(topic, key, key, None, value, None)) != UNASSIGNED:
            return home
        known = self.known(topic)
        partition = choose(topic, key, key, None, value, known)
        if key is not None:  # the poller has ended
            return partition
        if partition in tried and (route := self._partitioner.route(topic, known)) is not None:
            drawn = random.choices(route.usable, k=_DRAWS)
            return next((other for other in drawn if other not in tried), drawn[-1])
        return partition if self._sticky is None else self._take_turns(record, partition)
