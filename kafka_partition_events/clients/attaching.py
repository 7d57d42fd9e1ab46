"""What a producer of any client begins with: what is asked for is checked; its statistics."""

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
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.subscriptions import Subscription, check_feeder
from kafka_partition_events.partitioners.base import Partitioner

_attached: "weakref.WeakKeyDictionary[Any, tuple[Flight, CleanupPolicies | None]]"
_attached = weakref.WeakKeyDictionary()


def rescue_stats(producer: Any) -> RescueStats:
    """Return what the rescue of a producer has done so far; all zero without one."""
    flight, _ = _attached.get(producer, (None, None))
    return RescueStats() if flight is None or flight.copies is None else flight.copies.stats


def key_stats(producer: Any) -> KeyStats:
    """Return what became of a producer's records with a key so far."""
    flight, policies = _attached.get(producer, (None, None))
    if flight is None or flight.keyed is None:
        return KeyStats()
    return evolve(flight.keyed.order.stats, refused=() if policies is None else policies.refused)


@frozen
class Plan:
    """What is to be done for a producer's records, checked."""

    mode: RescueMode | None  # when records without a key get copies
    moves: MoveKeys | None  # how keys move
    further: int  # how many further handles there may be
    acks: str  # ``"0"``, ``"1"`` or ``"all"``
    poller: MetadataPoller | None  # to follow; None: one of its own, which closes with the producer
    is_reported: bool  # each delivery is reported to the producer
    reports: ProducerReports  # the failure detector's door

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
        is_reported: bool = True,
        handles: int = 1,
    ) -> "Plan":
        """Return the plan, with so many further ``handles`` at most, or raise `ConfigurationError`."""
        if not isinstance(partitioner, Partitioner):
            raise ConfigurationError(
                "the partitioner must be an object of this library, such as AdaptivePartitioner(), "
                f"not {partitioner!r}"
            )
        if poller is not None and poller_options:
            raise ConfigurationError(f"{', '.join(poller_options)}: options of a poller; it is made already")
        partitioner.routing.process.check()
        check_feeder(partitioner, None if poller is None else poller.subscriptions)
        if is_embedded(producer):
            raise ConfigurationError(
                "this producer is attached already, which lasts as long as the producer: make a new one"
            )
        mode = checked_mode(rescue, transaction=transaction, acks=acks, is_reported=is_reported)
        moves = checked_keys(keys, transaction, partitioner, acks=acks, is_reported=is_reported)
        second = checked_standby(standby, transaction, waits_for_replicas=acks == "all")
        further = 0 if second == "off" else handles
        return cls(mode, moves, further, acks, poller, is_reported, ProducerReports(partitioner))

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
        learn: Callable[[Mapping[str, TopicInfo]], object] = lambda _found: None,
        close_short_cut: Callable[[str], object] = lambda _topic: None,
    ) -> tuple[Flight, Subscription, CleanupPolicies | None]:
        """Return what sends the producer's records; have the partitioner follow the poller.

        The poller asks for the topics that are ``written``, has the client ``learn`` of what it has found,
        and asks where keys may move. A producer that is dropped leaves it; one of its own closes then.
        """
        self.reports.poller, deliveries = poller, partitioner.deliveries
        flight = Flight(partitioner, client, self.reports, self.mode, tracks=self.is_reported)
        policies = None if self.moves is None or self.moves.compacted_ok else policies_over()
        if (self.further or self.moves is not None) and self.is_reported and not partitioner.ignores_keys:
            may_move = None if policies is None else policies.may_move
            probe = deliveries.take_keyed_probe
            flight.keep_order(KeyOrder(close_short_cut, self.moves, may_move, probe, recalls=flight.hedges))

        def polled(found: Mapping[str, TopicInfo]) -> None:
            learn(found)
            if policies is not None:
                policies.ask(written())

        is_own = self.poller is None
        follower = poller.join(partitioner, written, polled, self.reports.ended, last_closes=is_own)
        weakref.finalize(producer, follower.drop)
        _attached[producer] = flight, policies
        deliveries.serve(linger=linger_s, acks_all=self.acks == "all", standbys=self.further)
        return flight, follower, policies
