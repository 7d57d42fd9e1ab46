"""Code as application teams write it; ``mypy --strict`` must accept all of it (``make types``)."""

from collections.abc import Mapping

from kafka_partition_events import (
    BufferBudget,
    Cluster,
    DefaultPartitioner,
    MetadataPoller,
    MetadataSource,
    PartitionChangeListener,
    Partitioner,
    PartitionInfo,
    PartitionOffline,
    Registration,
    Route,
    TopicPartition,
)


class ByRegion(Partitioner):
    def choose(self, route: Route, topic: str, key: bytes | None, value: bytes | None, /) -> int:
        if value is not None and value.startswith(b"eu:"):
            return route.usable[0]
        return self.home(route, key) if key is not None else route.usable[-1]


class Pager(PartitionChangeListener):
    def on_partition_offline(self, event: PartitionOffline) -> None:
        self.last: tuple[str, int, int | None] = (event.topic, event.partition, event.old.leader)

    def on_partitions_change(
        self, cluster: Cluster, partitions_changed: Mapping[TopicPartition, PartitionInfo]
    ) -> None:
        self.count = sum(1 for info in partitions_changed.values() if not info.online) + cluster.generation


def wire(source: MetadataSource) -> int:
    budget = BufferBudget(buffer_memory=32 << 20, batch_size=16_384, instance_id="pod-1")
    with MetadataPoller(source, topics=["orders"], interval=10.0) as poller:
        registration: Registration = poller.register(Pager())
        poller.register(ByRegion(budget=budget))
        poller.register(DefaultPartitioner(hash_name="crc32"))
        registration.close(wait=1.0)
        cluster = poller.cluster
        return 0 if cluster is None else len(cluster.by_topic)
