"""What a producer of any client begins with: what is asked for is checked; its statistics."""

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, get_args

from attrs import evolve

from kafka_partition_events.clients.flight.cleanup_policy import CleanupPolicies
from kafka_partition_events.clients.flight.client import Client
from kafka_partition_events.clients.flight.detour import StandbyMode
from kafka_partition_events.clients.flight.engine import Flight
from kafka_partition_events.clients.flight.key_moves import KeysMode, KeyStats, MoveKeys
from kafka_partition_events.clients.flight.key_order import KeyOrder
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import RescueMode, RescueStats
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
    return RescueStats() if flight is None else flight.copies.stats


def key_stats(producer: Any) -> KeyStats:
    """Return what became of a producer's records with a key so far."""
    flight, policies = _attached.get(producer, (None, None))
    if flight is None or flight.keyed is None:
        return KeyStats()
    return evolve(flight.keyed.order.stats, refused=() if policies is None else policies.refused)


class AttachPlan:
    """What is to be done for a producer's records, checked.

    Attributes:
        rescue: When records without a key get copies.
        further: How many further handles there may be.
        reports: The failure detector's door.
    """

    def __init__(
        self,
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
        handles: int = 1,
    ) -> None:
        """Check it, with so many further ``handles`` at most; raise `ConfigurationError`.

        ``transaction``: the setting that makes the producer transactional; None when it is not. ``acks``:
        ``"0"``, ``"1"`` or ``"all"``. Without a ``poller`` the producer has one of its own.
        """
        if not isinstance(partitioner, Partitioner):
            raise ConfigurationError(
                "the partitioner must be an object of this library, such as AdaptivePartitioner(), "
                f"not {partitioner!r}"
            )
        if poller is not None and poller_options:
            raise ConfigurationError(f"{', '.join(poller_options)}: options of a poller; it is made already")
        partitioner.routing.process.check()
        check_feeder(partitioner, None if poller is None else poller.subscriptions)
        if producer in _attached:
            raise ConfigurationError(
                "this producer is attached already, which lasts as long as the producer: make a new one"
            )
        if rescue is not None:
            _check_choice("rescue", rescue, get_args(RescueMode))
            _refuse("rescue", transaction, acks, "a copy may arrive beside its original")
        _check_choice("standby", standby, get_args(StandbyMode))
        self._moves = keys if isinstance(keys, MoveKeys) else None
        if not isinstance(keys, MoveKeys):
            _check_choice("keys", keys, get_args(KeysMode))
            self._moves = MoveKeys() if keys == "move" else None
        if self._moves is not None:
            why = "a record that waits for an earlier one of its key would miss it"
            _refuse('keys="move"', transaction, acks, why)
            if partitioner.ignores_keys:
                raise ConfigurationError(
                    'keys="move" is of no use with a partitioner that ignores keys: its records leave a sick '
                    "broker as they are"
                )
        # Two handles can't be in one transaction; and only who waits for replicas is blocked by one.
        self._waits_for_replicas = acks == "all"
        self.further = handles if standby == "auto" and transaction is None and acks == "all" else 0
        self.rescue, self.reports = rescue, ProducerReports(partitioner)
        self._producer, self._partitioner, self._is_own = producer, partitioner, poller is None

    def begin(
        self,
        client: Client,
        poller: MetadataPoller,
        written: Callable[[], Collection[str]],
        policies_over: Callable[[], CleanupPolicies],
        *,
        linger_s: float,
        learn: Callable[[Mapping[str, TopicInfo]], object] = lambda _found: None,
        close_short_cut: Callable[[str], object] = lambda _topic: None,
    ) -> tuple[Flight, Subscription]:
        """Return what sends the producer's records; have the partitioner follow the poller.

        The poller asks for the topics that are ``written``, has the client ``learn`` of what it has found,
        and asks where keys may move. A producer that is dropped leaves it; one of its own closes then.
        """
        partitioner, deliveries = self._partitioner, self._partitioner.deliveries
        self.reports.poller = poller
        for detour in () if self.further else client.detours.values():
            detour.end()
        flight = Flight(partitioner, client, self.reports, self.rescue)
        policies = None if self._moves is None or self._moves.compacted_ok else policies_over()
        if (self.further or self._moves is not None) and not partitioner.ignores_keys:
            may_move = None if policies is None else policies.may_move
            probe = deliveries.take_keyed_probe
            recalls = self.rescue == "hedge"
            flight.keep_order(KeyOrder(close_short_cut, self._moves, may_move, probe, recalls=recalls))

        def polled(found: Mapping[str, TopicInfo]) -> None:
            learn(found)
            if policies is not None:
                policies.ask(written())

        follower = poller.join(partitioner, written, polled, self.reports.ended, last_closes=self._is_own)
        weakref.finalize(self._producer, follower.drop)
        _attached[self._producer] = flight, policies
        deliveries.serve(linger=linger_s, acks_all=self._waits_for_replicas, standbys=self.further)
        return flight, follower


def _check_choice(option: str, given: object, choices: Sequence[str]) -> None:
    if given not in choices:
        raise ConfigurationError(f"{option} must be one of {', '.join(choices)}, not {given!r}")


def _refuse(option: str, transaction: str | None, acks: str, why: str) -> None:
    """Raise `ConfigurationError` where a producer's settings leave an option no use."""
    if transaction is not None:
        raise ConfigurationError(
            f"{option} can't be used with {transaction}: {why}, and a transaction promises exactly one of "
            "each. Leave the option out; abort and retry a transaction that fails"
        )
    if acks == "0":
        raise ConfigurationError(
            f"{option} can't be used with acks=0: no broker says then which record it has, and where. Use "
            "acks=1 or acks=all"
        )
