"""What both clients' second way to the brokers has in common: when there is one, whom it asks first. Pure.

A broker serves one produce request of a connection at a time. With ``acks=all`` a request that waits for a
replica that hangs so holds up everything that this client sends to the same leader, also what needs nobody
but healthy brokers. A second handle has connections of its own; nothing is sent there that needs a suspect.
"""

from collections.abc import Collection
from typing import Literal, get_args

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.cluster import Cluster

StandbyMode = Literal["off", "lazy", "warm"]
"""``"off"``: none. ``"lazy"``: made when it is first needed, and closed when it was idle for a minute.
``"warm"``: made with the producer, and kept."""

IDLE_S = 60.0


def checked_standby(mode: str, transaction: str | None, *, waits_for_replicas: bool) -> StandbyMode:
    """Return the mode; ``"off"`` for what can't take two ways, or has no need of them.

    Args:
        mode: What was asked for.
        transaction: The setting that makes the producer transactional; None when it is not.
        waits_for_replicas: Whether its records wait for every in-sync replica.

    Raises:
        ConfigurationError: there is no such mode, or a transaction would be spread over two handles.
    """
    if mode not in get_args(StandbyMode):
        raise ConfigurationError(f"standby must be one of {', '.join(get_args(StandbyMode))}, not {mode!r}")
    if transaction is not None:
        if mode == "warm":
            raise ConfigurationError(
                f"standby can't be used with {transaction}: a transaction has one handle"
            )
        return "off"
    return mode if waits_for_replicas else "off"  # type: ignore[return-value]


def healthy(cluster: Cluster | None, suspects: Collection[int]) -> list[str]:
    """Return the addresses to begin with: a broker that hangs would keep a new handle waiting."""
    nodes = () if cluster is None else cluster.nodes.values()
    return [f"{node.host}:{node.port}" for node in nodes if node.id not in suspects]
