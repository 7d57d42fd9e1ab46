"""The poller's thread adopts, an agent's thread limits: once a limit is set, nobody goes beyond it."""

import threading

from kafka_partition_events import DefaultPartitioner
from kafka_partition_events.testing.scripted import cluster_of

SNAPSHOTS = [cluster_of({"orders": [1] * count}) for count in (3, 6, 9)]
THREE = {"orders": 3}
ROUNDS = 300


def test_a_limit_holds_from_the_moment_that_it_is_set_whatever_is_adopted_meanwhile() -> None:
    partitioner = DefaultPartitioner()
    partitioner.apply_snapshot(SNAPSHOTS[2])
    over = threading.Event()

    def adopt() -> None:
        while not over.is_set():
            for snapshot in (*SNAPSHOTS, None):
                partitioner.apply_snapshot(snapshot)

    poller = threading.Thread(target=adopt)
    poller.start()
    try:
        for _ in range(ROUNDS):
            partitioner.routing.limit(THREE)
            for n in range(5):
                key = b"%d" % n
                assert 0 <= partitioner.partition("orders", key, key, None, None, None) < 3
                assert 0 <= partitioner.partition("orders", None, None, None, None, None) < 3
            partitioner.routing.limit({})
    finally:
        over.set()
        poller.join()
    partitioner.apply_snapshot(SNAPSHOTS[2])
    route = partitioner.route("orders")
    assert route is not None
    assert route.count == 9
