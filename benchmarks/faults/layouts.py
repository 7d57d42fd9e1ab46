"""What a cluster, its topics and its producers are set to while faults are measured."""

from typing import Literal

from attrs import evolve, frozen

from kafka_partition_events.demo.plan import placement

VALUE_BYTES = 100
LINGER_MS = 5
LATE_MS = 100.0

Links = Literal["clients", "all"]


@frozen
class ClusterKind:
    """What a cluster must be started with. Scenarios of one kind share one cluster.

    Attributes:
        links: Whose connections go through links that can be disturbed; None if nobody's.
        slow_disk: Whether writes to disk can be slowed down.
    """

    brokers: int
    session_ms: int
    links: Links | None = None
    slow_disk: bool = False


@frozen
class Layout:
    """Brokers, topics and settings that one scenario's producers share.

    Attributes:
        acks: What every producer asks for.
        delivery_limit_ms: How long any producer may try. Short, so that what a fault costs shows within the
            run: after two minutes, the default, a record of a web request is as good as failed.
        session_ms: How long the cluster goes on naming a broker that is gone.
        warm_up_s: How long it runs before anything counts: with 1 s, Java was still compiling itself, and a
            broker that was killed in the last run is as cold.
        calm_s: How long the load runs undisturbed after the warm-up.
        after_s: How long it goes on from the fault on.
    """

    brokers: int
    partitions: int
    replication: int
    min_insync: int
    acks: Literal["1", "all"]
    delivery_limit_ms: int
    session_ms: int
    warm_up_s: float
    calm_s: float
    after_s: float

    @property
    def request_limit_ms(self) -> int:
        """The limit of one request; kafka-python and Java want it below the delivery limit."""
        return self.delivery_limit_ms - 500

    @property
    def in_words(self) -> str:
        return (
            f"{self.brokers} brokers, {self.partitions} partitions, replication factor {self.replication}, "
            f"min.insync.replicas {self.min_insync}, acks={self.acks}"
        )

    def leader_of(self, partition: int) -> int:
        """Return a partition's leader: topics are laid out by hand, to know whom a fault hits."""
        return partition % self.brokers + 1

    def assignment(self) -> dict[int, list[int]]:
        """Return partition -> brokers for a new topic; see `placement`."""
        return placement(self.brokers, self.partitions, self.replication)


SIX = Layout(
    brokers=6,
    partitions=24,
    replication=3,
    min_insync=2,
    acks="all",
    delivery_limit_ms=5_000,
    session_ms=9_000,  # Kafka's default
    warm_up_s=4.0,
    calm_s=3.0,
    after_s=8.0,
)
"""Nearest to production: the README shows it, and its targets are judged."""
THREE = evolve(SIX, brokers=3, partitions=6)
"""Where each record needs a broker that hangs, if that leads or only follows."""
