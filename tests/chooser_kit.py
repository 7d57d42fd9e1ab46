"""What tests of choosers share: a choice among partitions whose leaders are given, and loads."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.partitioners.choosers import Choice, Chooser
from kafka_partition_events.partitioners.deliveries import Deliveries
from kafka_partition_events.routing.judgement import Policy
from kafka_partition_events.routing.table import compile_route
from kafka_partition_events.testing.scripted import cluster_of

RACKS = {1: "a", 2: "b", 3: "c"}


def choice_of(
    leaders: Sequence[int | None],
    key: bytes | None = None,
    *,
    topic: str = "t",
    deliveries: Deliveries | None = None,
    racks: Mapping[int, str | None] = RACKS,
) -> Choice:
    """Return a choice among the online ones of partitions that these brokers lead."""
    info = cluster_of({topic: list(leaders)}, brokers=[1, 2, 3]).by_topic[topic]
    route = compile_route(info)
    return Choice(route, topic, key, b"v", route.usable, deliveries or Deliveries(lambda: None), racks)


def chosen(chooser: Chooser, choice: Choice, times: int) -> Counter[int]:
    """Return how often each place is chosen."""
    return Counter(chooser(choice) for _ in range(times))


def load(choice: Choice, place: int, records: int) -> None:
    """Have so many records more on their way to a place; fewer, if negative."""
    for _ in range(records):
        choice.deliveries.sent(choice.topic, place, choice.route.leader(place))
    for _ in range(-records):
        choice.deliveries.withdrawn(choice.topic, place)


def judged(partitioner: Partitioner, clock: Callable[[], float], policy: Policy | None = None) -> Deliveries:
    """Let a partitioner judge brokers by another clock and policy."""
    deliveries = Deliveries(partitioner.routing.renew, policy, clock)
    partitioner.deliveries = partitioner.routing.deliveries = deliveries
    return deliveries
