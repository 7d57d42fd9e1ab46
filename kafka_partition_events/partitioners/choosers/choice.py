"""What a chooser is asked about."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafka_partition_events.partitioners.deliveries import Deliveries
from kafka_partition_events.routing.table import Route


class Choice(NamedTuple):
    """One record, and the partitions that it may go to. Immutable.

    Attributes:
        route: The topic's partitions as they are now.
        topic: The record's topic.
        key: The key's bytes, None for an unkeyed record.
        value: The value's bytes.
        places: The partitions to choose among, ascending; never empty. At first these are the admitted and
            online ones that need no suspect broker. As long as nothing changes it is the same object, so
            that what is derived from it can be kept.
        deliveries: What is known from delivery reports.
        racks: The racks of the brokers, as far as the snapshot tells.
    """

    route: Route
    topic: str
    key: bytes | None
    value: bytes | None
    places: tuple[int, ...]
    deliveries: Deliveries
    racks: Mapping[int, str | None]

    def among(self, places: tuple[int, ...]) -> "Choice":
        """Return the same choice among other places: at least one, ascending."""
        return Choice(self.route, self.topic, self.key, self.value, places, self.deliveries, self.racks)

    def outstanding(self, places: Iterable[int]) -> list[int]:
        """Return, for each place, how many followed records are on their way there.

        Up to about 4,000 records a second and topic all are followed, above that a sample. On kafka-python
        this needs `attach`; without it, and before the first record, all are 0.
        """
        return self.deliveries.outstanding(self.topic, places)

    def rack(self, place: int) -> str | None:
        """Return the rack of a place's leader; None if that is not known."""
        leader = self.route.leader(place)
        return None if leader is None else self.racks.get(leader)


Chooser = Callable[[Choice], int]
"""Returns one of ``choice.places``. It is called on producing threads, so it must not wait for anything."""
