"""``partition()`` beside kafka-python's own partitioners, at growing partition counts."""

import uuid
from collections.abc import Callable
from typing import Any

from attrs import asdict
from kafka import partitioner as kafka_python

from benchmarks.measure import Pair, cpu_ns, interleaved, save
from kafka_partition_events import (
    Cluster,
    DefaultPartitioner,
    Node,
    PartitionInfo,
    RoundRobinPartitioner,
    StickyPartitioner,
    TopicInfo,
)

COUNTS = (3, 12, 1_000, 10_000)
KEYS = {"8 B key": b"user-123", "36 B key (UUID)": b"3f2504e0-4f89-11d3-9a0c-0305e82c3301"}
OURS_REPEATS = 20_000


def kafka_python_cluster(count: int) -> Any:
    """Return kafka-python's own live cluster object, filled through its own protocol classes."""
    from kafka.cluster import ClusterMetadata  # noqa: PLC0415 - only this benchmark needs it
    from kafka.protocol.metadata import MetadataResponse  # noqa: PLC0415

    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    response = MetadataResponse(
        version=12,
        throttle_time_ms=0,
        brokers=[MetadataResponse.MetadataResponseBroker(1, "localhost", 9092, None)],
        cluster_id="bench",
        controller_id=1,
        topics=[
            topic(
                error_code=0,
                name="t",
                topic_id=uuid.UUID(int=1),
                is_internal=False,
                partitions=[
                    partition(
                        error_code=0,
                        partition_index=i,
                        leader_id=1,
                        leader_epoch=0,
                        replica_nodes=[1],
                        isr_nodes=[1],
                        offline_replicas=[],
                    )
                    for i in range(count)
                ],
            )
        ],
    )
    cluster = ClusterMetadata()
    cluster.update_metadata(MetadataResponse.decode(response.encode(version=12), version=12))
    return cluster


def our_cluster(count: int) -> Cluster:
    return Cluster(
        nodes=[Node(1, "localhost", 9092)],
        by_topic=[TopicInfo("t", tuple(PartitionInfo("t", i, 1) for i in range(count)))],
        generation=1,
    )


def compare(ours: Any, theirs: Any, key: bytes | None, count: int, pairs: int) -> Pair:
    live = kafka_python_cluster(count)
    ours.apply_snapshot(our_cluster(count))
    theirs_repeats = max(20, OURS_REPEATS // (10 + count))

    def timed(partitioner: Any, repeats: int) -> Callable[[], float]:
        def call() -> object:
            return partitioner.partition("t", key, key, b"value", b"value", live)

        return lambda: cpu_ns(call, repeats)

    return interleaved(timed(ours, OURS_REPEATS), timed(theirs, theirs_repeats), pairs)


def main(*, quick: bool = False) -> None:
    pairs = 3 if quick else 11
    cases = [
        *(
            (f"keyed, {name}", DefaultPartitioner, kafka_python.DefaultPartitioner, key)
            for name, key in KEYS.items()
        ),
        ("unkeyed, default", DefaultPartitioner, kafka_python.DefaultPartitioner, None),
        ("unkeyed, sticky", StickyPartitioner, kafka_python.StickyPartitioner, None),
        (
            "unkeyed, round robin beside its default",
            RoundRobinPartitioner,
            kafka_python.DefaultPartitioner,
            None,
        ),
    ]
    rows, raw = [], []
    for name, ours, theirs, key in cases:
        for count in COUNTS:
            pair = compare(ours(), theirs(), key, count, pairs)
            rows.append([name, f"{count:,}", pair.a.text(0), pair.b.text(0), f"**{pair.ratio.text(1)}**"])
            raw.append({"case": name, "partitions": count, **asdict(pair)})
    save(
        "partition",
        "One `partition()` call: CPU nanoseconds, and how many times cheaper ours is",
        ["case", "partitions", "ours, ns", "kafka-python, ns", "ratio"],
        rows,
        raw,
    )


if __name__ == "__main__":
    main()
