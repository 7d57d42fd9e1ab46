"""What `attach` does alike for each client: it checks what is asked for, begins, and counts."""

import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import evolve, frozen

from kafka_partition_events.clients.embedding import is_embedded
from kafka_partition_events.clients.flight.cleanup_policy import CleanupPolicies
from kafka_partition_events.clients.flight.client import Client
from kafka_partition_events.clients.flight.detour import StandbyMode, checked_standby
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_moves import KeysMode, KeyStats, MoveKeys, checked_keys
from kafka_partition_events.clients.flight.key_order import KeyOrder
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import RescueMode, RescueStats, checked_mode
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.subscriptions import Subscription, check_feeder
from kafka_partition_events.partitioners.base import Partitioner

_attached: "weakref.WeakKeyDictionary[Any, tuple[Flight, CleanupPolicies | None]]"
_attached = weakref.WeakKeyDictionary()


def rescue_stats(producer: Any) -> RescueStats:
    """Return what the rescue of a producer has done since `attach`; all zero without one."""
    flight, _ = _attached.get(producer, (None, None))
    return RescueStats() if flight is None or flight.copies is None else flight.copies.stats


def key_stats(producer: Any) -> KeyStats:
    """Return what became of a producer's records with a key since `attach`."""
    flight, policies = _attached.get(producer, (None, None))
    if flight is None or flight.keyed is None:
        return KeyStats()
    return evolve(flight.keyed.order.stats, refused=() if policies is None else policies.refused)


@frozen
class Plan:
    """What is to be done for a producer's records, checked.

    Attributes:
        mode: When records without a key get copies.
        moves: How keys move.
        has_second: Whether there may be a second handle.
        acks: ``"0"``, ``"1"`` or ``"all"``.
        poller: The poller to follow; None: one of its own, which closes with the producer.
    """

    mode: RescueMode | None
    moves: MoveKeys | None
    has_second: bool
    acks: str
    poller: MetadataPoller | None

    @classmethod
    def checked(
        cls,
        producer: Any,
        partitioner: Partitioner,
        rescue: RescueMode | None,
        standby: StandbyMode,
        keys: KeysMode | MoveKeys,
        poller: MetadataPoller | None,
        poller_options: Mapping[str, Any],
        *,
        transaction: str | None,
        acks: str,
    ) -> "Plan":
        """Return the plan, or raise `ConfigurationError`."""
        if not isinstance(partitioner, Partitioner):
            raise ConfigurationError(
                f"the producer's partitioner is a {type(partitioner).__name__}; give it "
                "partitioner=DefaultPartitioner() or another partitioner of this library"
            )
        if poller is not None and poller_options:
            raise ConfigurationError(f"{', '.join(poller_options)}: options of a poller; it is made already")
        partitioner.routing.process.check()
        check_feeder(partitioner, None if poller is None else poller.subscriptions)
        if is_embedded(producer):
            raise ConfigurationError(
                "this producer is attached already, which lasts as long as the producer: make a new one"
            )
        mode = checked_mode(rescue, transaction=transaction, acknowledged=acks != "0")
        moves = checked_keys(keys, transaction, partitioner, acks=acks, is_reported=True)
        second = checked_standby(standby, transaction, waits_for_replicas=acks == "all")
        return cls(mode, moves, second != "off", acks, poller)

    def begin(
        self,
        producer: Any,
        partitioner: Partitioner,
        client: Client,
        poller: MetadataPoller,
        written: Callable[[], Collection[str]],
        policies_over: Callable[[], CleanupPolicies],
        *,
        linger_s: float,
    ) -> tuple[Flight, Subscription]:
        """Return what sends the producer's records; have the partitioner follow the poller.

        The poller asks for the topics that are ``written``, and where keys may move. A producer that is
        dropped leaves it; one of its own closes then.
        """
        reports, deliveries = ProducerReports(partitioner, poller), partitioner.deliveries
        flight, policies = Flight(partitioner, client, reports, self.mode), None
        if (self.has_second or self.moves is not None) and not partitioner.ignores_keys:
            if self.moves is not None and not self.moves.compacted_ok:
                policies = policies_over()
            may_move = None if policies is None else policies.may_move
            probe = deliveries.take_keyed_probe
            order = KeyOrder(lambda _topic: None, self.moves, may_move, probe, recalls=flight.hedges)
            flight.keep_order(order)

        def polled(_found: object) -> None:
            if policies is not None:
                policies.ask(written())

        is_own = self.poller is None
        follower = poller.join(partitioner, written, polled, reports.ended, last_closes=is_own)
        weakref.finalize(producer, follower.drop)
        _attached[producer] = flight, policies
        deliveries.wait_for_batches(linger_s)
        if self.acks == "all":
            deliveries.wait_for_replicas()
        if self.has_second:
            deliveries.has_standby(1)
        return flight, follower
