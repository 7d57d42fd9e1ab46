"""A partitioner for many tenants: none can flood more than a few partitions, and each key keeps its order.

    python examples/tenant_partitioner.py

prints where some records go; that takes no broker.
"""

from typing import Any
from zlib import crc32

from kafka_partition_events import DefaultPartitioner, Route
from kafka_partition_events.testing import cluster_of


class TenantPartitioner(DefaultPartitioner):
    """Keys are ``tenant:id``. A tenant has ``width`` partitions in a row, each of its keys one of them."""

    def __init__(self, width: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.width = width

    def home(self, route: Route, key: bytes) -> int:
        """Return a key's partition, online or not."""
        first = super().home(route, key.partition(b":")[0])
        return (first + crc32(key) % self.width) % route.count


def main() -> None:
    """Place a few records of three tenants on 12 partitions."""
    partitioner = TenantPartitioner()
    partitioner.apply_snapshot(cluster_of({"orders": [1, 2, 3] * 4}))
    for tenant in (b"acme", b"globex", b"initech"):
        keys = [b"%s:%d" % (tenant, number) for number in range(8)]
        placed = [partitioner.partition("orders", key, key, None, b"", None) for key in keys]
        print(f"{tenant.decode():8} {placed}")


if __name__ == "__main__":
    main()
