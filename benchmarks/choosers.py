"""What each chooser costs: one `ComposedPartitioner.choose` beside one of `RoundRobinPartitioner`."""

import time
from collections.abc import Callable
from itertools import cycle

from attrs import asdict

from benchmarks.measure import cpu_ns, interleaved, save
from kafka_partition_events import Cluster, Node, Partitioner, PartitionInfo, RoundRobinPartitioner, TopicInfo
from kafka_partition_events.partitioners.choosers import (
    Chooser,
    by_metric,
    evenly,
    least_loaded,
    near_rack,
    shuffle_sharded,
    weighted,
)
from kafka_partition_events.partitioners.choosers.shards import SHARDS
from kafka_partition_events.partitioners.composed import ComposedPartitioner

COUNTS = (12, 1_000)
RACKS = {1: "a", 2: "b", 3: "c"}
OUTSTANDING = 3
REPEATS = 20_000
FEW_KEYS = [b"tenant-%d" % number for number in range(1_000)]
MANY_KEYS = [b"tenant-%d" % number for number in range(SHARDS)]

Keys = list[bytes] | list[None]


def metric(count: int) -> Chooser:
    return by_metric(lambda _topic: {partition: partition % 100 for partition in range(count)}, evenly())


CASES: dict[str, tuple[Callable[[int], Chooser], Keys]] = {
    "`evenly()`": (lambda _count: evenly(), [None]),
    '`weighted({...}, by="partition")`': (lambda _count: weighted({0: 3, 1: 0.5}), [None]),
    '`weighted({...}, by="broker")`': (lambda _count: weighted({1: 2}, by="broker"), [None]),
    '`near_rack("a", evenly(), spill=50)`': (lambda _count: near_rack("a", evenly(), spill=50), [None]),
    "`least_loaded()`": (lambda _count: least_loaded(), [None]),
    "`by_metric(read, evenly())`": (metric, [None]),
    "`shuffle_sharded(4, evenly())`, 1,000 keys": (lambda _count: shuffle_sharded(4, evenly()), FEW_KEYS),
    "`shuffle_sharded(4, least_loaded())`, 1,000 keys": (
        lambda _count: shuffle_sharded(4, least_loaded()),
        FEW_KEYS,
    ),
    '`shuffle_sharded(4, near_rack("a", least_loaded(), spill=50))`, 1,000 keys': (
        lambda _count: shuffle_sharded(4, near_rack("a", least_loaded(), spill=50)),
        FEW_KEYS,
    ),
}


def cluster_of(count: int) -> Cluster:
    partitions = tuple(PartitionInfo("t", i, i % 3 + 1) for i in range(count))
    nodes = [Node(broker, "localhost", 9092, rack) for broker, rack in RACKS.items()]
    return Cluster(nodes=nodes, by_topic=[TopicInfo("t", partitions)], generation=1)


def timed(partitioner: Partitioner, keys: Keys, repeats: int = REPEATS) -> Callable[[], float]:
    """Return what measures one choice, all that is kept between choices included."""
    route, following, choose = partitioner.route("t"), cycle(keys), partitioner.choose
    assert route is not None  # noqa: S101 - a table was adopted

    def call() -> object:
        return choose(route, "t", next(following), b"value")

    return lambda: cpu_ns(call, repeats)


def composed(chooser: Chooser, count: int) -> ComposedPartitioner:
    """Return a partitioner that has placed some records, a few of which are on their way."""
    partitioner = ComposedPartitioner(chooser, keys="chooser")
    partitioner.adopt(cluster_of(count))
    for partition in range(count):
        for _ in range(partition % OUTSTANDING):
            partitioner.deliveries.sent("t", partition, partition % 3 + 1)
    partitioner.partition("t", None, None, None, b"value", None)
    time.sleep(0.1)  # for the metric to be read
    return partitioner


def first_of_a_key(count: int) -> Callable[[], float]:
    """Return what measures a choice for keys that were not seen before, with 4 places each."""

    def once() -> float:
        return timed(composed(shuffle_sharded(4, evenly()), count), MANY_KEYS, repeats=500)()

    return once


def main(*, quick: bool = False) -> None:
    pairs = 3 if quick else 11
    rows, raw = [], []
    for count in COUNTS:
        peer = RoundRobinPartitioner()
        peer.adopt(cluster_of(count))
        round_robin = timed(peer, [None])
        measured = {name: timed(composed(make(count), count), keys) for name, (make, keys) in CASES.items()}
        measured["`shuffle_sharded(4, evenly())`, a key's first record"] = first_of_a_key(count)
        for name, cost in measured.items():
            pair = interleaved(round_robin, cost, pairs)
            rows.append([name, f"{count:,}", pair.b.text(0), pair.a.text(0), f"**{pair.ratio.text(1)}**"])
            raw.append({"case": name, "partitions": count, **asdict(pair)})
    save(
        "choosers",
        "One choice: CPU nanoseconds of a `ComposedPartitioner`, and how many times a round robin's that is",
        ["chooser", "partitions", "composed, ns", "`RoundRobinPartitioner`, ns", "ratio"],
        rows,
        raw,
    )


if __name__ == "__main__":
    main()
