"""What campaigns do to Kafka, and how they bring all of it back."""

import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import partial
from typing import Final

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError
from tests.chaos.plan import BROKERS

Do = Callable[[], object]
"""What begins or ends a fault."""
RECOVERY_LIMIT_S: Final = 240.0
MIN_ISR: Final = 2

DISTURB: Final[dict[str, Callable[..., None]]] = {
    "delay": lambda link, ms: link.delay(ms, jitter=ms / 2),
    "bandwidth": lambda link, rate: link.bandwidth(rate),
    "blackhole": lambda link, _: link.blackhole(),
    "deaf": lambda link, _: link.one_way("to_broker"),
    "mute": lambda link, _: link.one_way("to_client"),
    "refuse": lambda link, _: link.refuse(),
    "drop": lambda link, every: link.drop(every),
    "between_delay": lambda link, ms: link.delay(ms, jitter=ms / 2),
    "between_bandwidth": lambda link, rate: link.bandwidth(rate),
    "between_blackhole": lambda link, _: link.blackhole(),
    "between_one_way": lambda link, _: link.one_way(int(link._ends[0])),
}
"""What is done to a link, by kind, with a value; it lasts until the link heals."""


def down(cluster: KafkaCluster, kind: str, node: int) -> tuple[Do, Do]:
    """Return what takes a node away (``freeze``: lets it hang), and what brings it back."""
    begin = {
        "kill": cluster.kill,
        "stop": cluster.stop,
        "fill_disk": cluster.fill_disk,
        "freeze": cluster.freeze,
    }
    return partial(begin[kind], node), partial(cluster.thaw if kind == "freeze" else cluster.restart, node)


def bring_back(cluster: KafkaCluster) -> None:
    """Start and thaw every node, and wait until all brokers are registered.

    Raises:
        KitError: they are not.
        OSError: a broker does not answer.
    """
    for node in (*cluster.controllers, *BROKERS):
        if node not in cluster.pids:
            cluster.restart(node)
        cluster.thaw(node)
    cluster.await_registered(*BROKERS)


def out_of_sync(cluster: KafkaCluster, topics: Collection[str] = ()) -> list[str]:
    """Return the partitions that lack a leader or a replica in sync, and which of these topics are not there.

    Raises:
        OSError: the broker that is asked does not answer.
    """
    view = cluster._nodes.brokers[BROKERS[0]].ask()
    partitions = [
        f"{topic}-{number}"
        for topic, partitions in view.topics.items()
        for number, partition in partitions.items()
        if set(partition.isr) != set(partition.replicas) or partition.leader < 0
    ]
    return [*partitions, *(topic for topic in topics if topic not in view.topics)]


def hides_records(cluster: KafkaCluster, topic: str) -> bool:
    """Return whether a reader may not see all that was acknowledged.

    With fewer replicas in sync than min.insync.replicas the high watermark of a new leader stands still.

    Raises:
        OSError: the broker that is asked does not answer.
    """
    partitions = cluster._nodes.brokers[BROKERS[0]].ask().topics.get(topic, {})
    return not partitions or any(len(it.isr) < MIN_ISR or it.leader < 0 for it in partitions.values())


def await_recovery(wrong: Callable[[], str]) -> None:
    """Ask what is wrong until nothing is.

    Raises:
        KitError: something still is after `RECOVERY_LIMIT_S`.
    """
    deadline = time.monotonic() + RECOVERY_LIMIT_S
    while found := wrong():
        if time.monotonic() > deadline:
            raise KitError(f"the cluster does not recover: {found}")
        time.sleep(0.5)


def say(what: str) -> None:
    """Print a line with the time."""
    print(f"{datetime.now(UTC):%H:%M:%S} {what}", flush=True)  # noqa: T201 - a program
