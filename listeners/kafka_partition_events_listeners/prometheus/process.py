"""What a process's own listeners, partitioners and producers say, as readings of metric families."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from kafka_partition_events.durations import NO_WORK
from kafka_partition_events.metadata.listener import name_of
from kafka_partition_events.metadata.registration import Registration, RegistrationStats
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.families import Family, Reading, single
from kafka_partition_events_listeners.prometheus.snapshot import limited


class CountingProducer(Protocol):
    """A producer that counts how it places records, such as `PartitioningProducer`."""

    @property
    def stats(self) -> Any:
        """What it has counted: ``rerouted``, ``avoided`` and ``capped``, as `ProducerStats` has them."""


_OF_LISTENERS: Final[Mapping[Family, Callable[[RegistrationStats], int]]] = {
    fam.LISTENER_EVENTS: lambda stats: stats.delivered,
    fam.LISTENER_ERRORS: lambda stats: stats.failures,
    fam.LISTENER_DROPPED: lambda stats: stats.dropped,
    fam.LISTENER_WAITING: lambda stats: stats.lag,
}


def read_listeners(registrations: Iterable[Registration]) -> Iterable[Reading]:
    """Return what listeners have been through; those of one name are added up."""
    by_name: defaultdict[str, list[RegistrationStats]] = defaultdict(list)
    for registration in registrations:
        by_name[name_of(registration.listener)].append(registration.stats)
    for family, count in _OF_LISTENERS.items():
        yield family, {(name,): sum(map(count, each)) for name, each in by_name.items()}
    yield (
        fam.LISTENER_DURATION,
        {(name,): sum((stats.durations for stats in each), NO_WORK) for name, each in by_name.items()},
    )


def read_partitioners(
    partitioners: Sequence[Partitioner], topics: Iterable[str], max_topics: int
) -> Iterable[Reading]:
    """Return where records without a key go, and how many brokers are avoided; the worst for each topic.

    Args:
        partitioners: Those that follow one poller.
        topics: The topics to read.
        max_topics: How many of them have series of their own.
    """
    if not partitioners:
        return
    usable: dict[str, int] = {}
    capped: dict[str, int] = {}
    for topic in topics:
        routes = [route for p in partitioners if (route := p.route(topic)) is not None]
        if routes:
            usable[topic] = min(len(route.usable) for route in routes)
            capped[topic] = max(route.count - len(route.admitted) for route in routes)
    for family, by_topic in ((fam.USABLE, usable), (fam.CAPPED, capped)):
        yield family, limited(by_topic, max_topics)
    yield single(fam.SUSPECTS, len(frozenset().union(*(p.deliveries.suspects() for p in partitioners))))


def read_producers(producers: Sequence[CountingProducer]) -> Iterable[Reading]:
    """Return how many records were placed while partitions were left out, by why."""
    if producers:
        counts = [producer.stats for producer in producers]
        yield (
            fam.REROUTES,
            {
                ("offline",): sum(each.rerouted for each in counts),
                ("suspect",): sum(each.avoided for each in counts),
                ("capped",): sum(each.capped for each in counts),
            },
        )
