"""A confluent-kafka producer whose records go where a partitioner says."""

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_partition_events.clients.confluent import batches, settings
from kafka_partition_events.clients.confluent.reports import OnDelivery, Reports
from kafka_partition_events.clients.confluent.rescue import Held, Rescue, RescueStats, refuse_with
from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource
from kafka_partition_events.clients.confluent.turns import (
    ProducerStats,
    Turn,
    linger_seconds,
    turn_seconds,
)
from kafka_partition_events.clients.rescue import RescueLimits, RescueMode, checked_mode
from kafka_partition_events.errors import ConfigurationError, PollerClosedError
from kafka_partition_events.metadata.listener import Registration
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.partitioners.sticky import StickyPartitioner

_produce = Producer.produce
_produce_batch = Producer.produce_batch
_poll = Producer.poll
_flush = Producer.flush
_UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - librdkafka's public name

_FLUSH_SLICE_S = 0.02
"""How long ``flush`` waits before it looks after what is to be sent again."""

_CLOSE_LIMIT_S = 1.0
"""How long closing waits for a fetch that hangs. It ends by itself, and touches the producer no more."""

_exclusive: "weakref.WeakSet[Partitioner]" = weakref.WeakSet()
"""Partitioners that follow some producer's own poller, and so can't follow another's."""


class PartitioningProducer(Producer):
    """A ``confluent_kafka.Producer`` that asks a `Partitioner` where records go.

    It is a plain producer in every other respect: the same settings, methods, errors and thread-safety. A
    partition that the caller gives (0 or more) is taken as it is.

    librdkafka can't call Python to choose a partition, so it is chosen here, before ``produce``. Where the
    answer is the same, librdkafka computes it itself: keyed records under a built-in partitioner that pins
    keys. As long as there is no metadata librdkafka chooses too, by the same hash; for that its
    ``partitioner`` setting is set, and a setting that means another hash is refused.

    Attributes:
        partitioner: Who chooses.
        poller: Who follows the cluster; register listeners there.
    """

    partitioner: Partitioner
    poller: MetadataPoller
    _dropped: "weakref.finalize[..., PartitioningProducer]"

    def __init__(
        self,
        config: Mapping[str, Any],
        partitioner: Partitioner | None = None,
        poller: MetadataPoller | None = None,
        *,
        rescue: RescueMode | None = None,
        rescue_limits: RescueLimits | None = None,
        poller_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make a producer.

        Args:
            config: confluent-kafka's settings.
            partitioner: Who chooses; `AdaptivePartitioner` when None. Producers can share one if they
                share the poller too.
            poller: Who follows the cluster. When None, the producer makes one, for exactly the topics that it
                writes, and closes it. A given one is used and left running; the topics that are written are
                tracked there.
            rescue: Whether unkeyed records without a partition are sent again to another partition: None,
                ``"failed"`` (when they time out) or ``"hedge"`` (also when they are stuck on a broker that
                has become suspect). Delivery is then at-least-once: see ``docs/guarantees.md``.
            rescue_limits: How many copies, and how many bytes are kept for them.
            poller_options: Arguments of `MetadataPoller` for the poller that is made here, such as
                ``{"interval": 5.0}``.
            **kwargs: Passed to confluent-kafka, such as ``logger``.

        Raises:
            ConfigurationError: ``partitioner`` in the config means another hash than the partitioner's,
                or the arguments contradict each other; ``rescue`` with ``transactional.id``.
            KafkaException: confluent-kafka refuses a setting.
        """
        self.partitioner = AdaptivePartitioner() if partitioner is None else partitioner
        if poller is not None and poller_options:
            raise ConfigurationError("poller_options are for the producer's own poller; give one of the two")
        if self.partitioner in _exclusive:
            raise ConfigurationError(
                "this partitioner already follows another producer's own poller; share a poller too, "
                "or give each producer its own partitioner"
            )
        self._deliveries = self.partitioner.deliveries
        self._reports = Reports(self.partitioner)
        full = settings.with_hash({**config, **kwargs}, self.partitioner.hash_name)
        self._rescue: Rescue | None = None
        if (mode := checked_mode(rescue)) is not None:
            refuse_with(full)
            self._rescue = Rescue(mode, rescue_limits or RescueLimits(), self._reports)
        elif rescue_limits is not None:
            raise ConfigurationError('rescue_limits without rescue: add rescue="failed" or rescue="hedge"')
        self._tracks = not settings.only_errors_are_reported(full)
        self._default_callback = full.get("on_delivery")
        full = settings.with_error_callback(full, self._reports.client_error)
        super().__init__(full)
        self._deliveries.wait_for_batches(linger_seconds(full))
        self._turn_s = turn_seconds(full)
        self._turns: dict[str, Turn] = {}
        self._adding = threading.Lock()
        self._fallbacks = 0
        self._by_turns = _inherits(self.partitioner, "partition", "choose")
        self._native_keys = (
            self._by_turns
            and self.partitioner.keyed == "pin"
            and _inherits(self.partitioner, "keyed_partition")
        )
        self._source: ConfluentMetadataSource | None = None
        self._follow(full, poller, poller_options or {})

    # -- producing -----------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = UNASSIGNED,
        callback: Callable[..., Any] | None = None,
        on_delivery: Callable[..., Any] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Send a record; see ``confluent_kafka.Producer.produce``.

        Raises:
            PartitionOfflineError: the partitioner was made with ``keyed="raise"``.
            BufferError: the producer's queue is full.
            KafkaException: librdkafka refuses the record.
        """
        # The hot path: every line was measured (benchmarks/produce.py). Both names of the callback are one
        # argument to confluent-kafka, and a None of the first would win over the second.
        try:
            turn = self._turns[topic]
        except KeyError:
            turn = self._turn(topic)
        if partition != UNASSIGNED:
            callback = on_delivery if callback is None else callback
            _produce(self, topic, value, key, partition, callback, None, timestamp, headers)
            return
        if key is None:
            for partition in turn.chunk:  # noqa: B007, PLR1704 - a `next` that needs no call
                break
            else:
                self._produce_tracked(topic, value, key, callback or on_delivery, timestamp, headers)
                return
        elif not key or not self._native_keys or self._deliveries.avoidance:
            # An empty key is no short cut: librdkafka's ``consistent_random`` takes it for no key at all.
            self._produce_tracked(topic, value, key, callback or on_delivery, timestamp, headers)
            return
        try:
            if callback is None and on_delivery is None and headers is None and timestamp == 0:
                _produce(self, topic, value, key, partition)
            else:
                callback = on_delivery if callback is None else callback
                _produce(self, topic, value, key, partition, callback, None, timestamp, headers)
        except KafkaException as error:
            if partition == UNASSIGNED or not _unknown_partition(error):
                raise
            self._fall_back(topic)
            _produce(self, topic, value, key, UNASSIGNED, callback, None, timestamp, headers)

    def _produce_tracked(
        self,
        topic: str,
        value: str | bytes | None,
        key: str | bytes | None,
        callback: OnDelivery | None,
        timestamp: int,
        headers: Any,
    ) -> None:
        """Send a record, and keep account of its delivery."""
        theirs = callback or self._default_callback
        if self._rescue is not None and key is None:
            held = self._rescue.hold(topic, value, headers, timestamp, theirs)
            if held is not None:
                try:
                    self._produce_held(self._rescue, held)
                except BaseException:
                    self._rescue.forget(held)
                    raise
                return
        partition = self._choose(topic, key, value)
        route = self.partitioner.route(topic)
        if not self._tracks or route is None or not 0 <= partition < route.count:
            _produce(self, topic, value, key, partition, callback, None, timestamp, headers)
            return
        self._deliveries.sent(topic, partition, route.leader(partition))
        report = self._reports.for_record(theirs)
        try:
            _produce(self, topic, value, key, partition, report, None, timestamp, headers)
        except BaseException as error:
            self._deliveries.withdrawn(topic, partition)
            if not _unknown_partition(error):
                raise
            self._fall_back(topic)
            _produce(self, topic, value, key, UNASSIGNED, callback, None, timestamp, headers)

    def _produce_held(self, rescue: Rescue, held: Held) -> None:
        """Send a record that may be rescued, or a copy of it."""
        topic = held.topic
        partition = self._choose(topic, None, held.value)
        route = self.partitioner.route(topic)
        if route is None or not 0 <= partition < route.count:
            partition = UNASSIGNED
        else:
            self._deliveries.sent(topic, partition, route.leader(partition))
        try:
            self._place(rescue, held, partition)
        except BaseException as error:
            if partition != UNASSIGNED:
                self._deliveries.withdrawn(topic, partition)
            if not _unknown_partition(error):
                raise
            self._fall_back(topic)
            self._place(rescue, held, UNASSIGNED)

    def _place(self, rescue: Rescue, held: Held, partition: int) -> None:
        headers = held.next_headers()
        report = rescue.placing(held, partition)
        try:
            _produce(self, held.topic, held.value, None, partition, report, None, held.timestamp, headers)
        except BaseException:
            rescue.refused(held, partition)
            raise

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = UNASSIGNED,
        callback: Callable[..., Any] | None = None,
        on_delivery: Callable[..., Any] | None = None,
    ) -> int:
        """Send many records; see ``confluent_kafka.Producer.produce_batch``.

        Unkeyed records without a partition share one turn's partition, at most 10,000 of them. A record's own
        ``"partition"`` is obeyed, as confluent-kafka documents (its own 2.16 ignores it). Records for
        different partitions may be sent in another order than they were given.

        Raises:
            PartitionOfflineError: the partitioner was made with ``keyed="raise"``; nothing was sent.
        """
        turn = self._turn(topic)
        if callback is None:
            callback = on_delivery
        if partition != UNASSIGNED:
            return _produce_batch(self, topic, messages, partition, callback)
        parts = batches.split(
            messages,
            choose=lambda key, value: self._choose(topic, key, value),
            take_turn=(lambda count: self._take_turn(topic, turn, count)) if self._by_turns else None,
            native_keys=self._native_keys,
        )
        sent = 0
        for chosen, part in parts:
            sent += _produce_batch(self, topic, part, chosen, callback)
            if chosen != UNASSIGNED and (refused := _refused(part)):
                self._fall_back(topic, len(refused))
                sent += _produce_batch(self, topic, refused, UNASSIGNED, callback)
        return sent

    @property
    def stats(self) -> ProducerStats:
        """What became of records whose partition was not given."""
        counted = [turn.counted() for turn in list(self._turns.values())]
        rerouted, avoided, capped = (sum(counts) for counts in zip((0, 0, 0), *counted, strict=True))
        return ProducerStats(rerouted=rerouted, avoided=avoided, capped=capped, fallbacks=self._fallbacks)

    @property
    def rescue_stats(self) -> RescueStats:
        """What the rescue has done; all zero without one."""
        return RescueStats() if self._rescue is None else self._rescue.stats

    # -- listening -----------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks, and send again what is to be rescued; see ``confluent_kafka.Producer.poll``."""
        try:
            return _poll(self, timeout)
        finally:
            self._listened()

    def flush(self, timeout: float = -1) -> int:
        """Wait until all records are delivered or failed, those included that are to be sent again.

        See ``confluent_kafka.Producer.flush``.
        """
        if self._rescue is None:
            try:
                return _flush(self, timeout)
            finally:
                self._listened()
        deadline = math.inf if timeout < 0 else time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            try:
                _flush(self, max(0.0, min(left, _FLUSH_SLICE_S)))
            finally:
                self._listened()
            if not len(self) or left <= 0:
                return len(self)

    def __len__(self) -> int:
        """Return how many records and reports wait, those included that are to be sent again."""
        waiting = 0 if self._rescue is None else self._rescue.waiting
        return super().__len__() + waiting

    def _listened(self) -> None:
        """Judge the brokers by what callbacks have told, and send again what is to be rescued."""
        self._reports.heard()
        if (rescue := self._rescue) is not None:
            if stuck := self._reports.stuck():
                rescue.hedge(stuck)
            rescue.drain(lambda held: self._produce_held(rescue, held))

    # -- choosing ------------------------------------------------------------------------------------

    def _choose(self, topic: str, key: str | bytes | None, value: str | bytes | None) -> int:
        """Ask the partitioner, or the turn if it is enough to ask once per turn."""
        partitioner, turn = self.partitioner, self._turn(topic)
        if key is not None:
            return partitioner.partition(topic, key, _encoded(key), value, _encoded(value), None)
        if self._by_turns:
            return turn.look(topic, partitioner, self._turn_s, stay=True)
        if not turn.asked(partitioner):
            turn.look(topic, partitioner, self._turn_s, stay=False)
        turn.partition = partition = partitioner.partition(topic, None, None, value, _encoded(value), None)
        return partition

    def _take_turn(self, topic: str, turn: Turn, count: int) -> int:
        """Return the partition for a number of unkeyed records."""
        partition = turn.look(topic, self.partitioner, self._turn_s, stay=True, count=count)
        if count >= batches.LONGEST_SLICE:
            turn.end()
        return partition

    def _turn(self, topic: str) -> Turn:
        """Return the topic's turn. At first sight of the topic, the poller begins to follow it."""
        turn = self._turns.get(topic)
        if turn is not None:
            return turn
        if not isinstance(topic, str):
            return Turn(self.partitioner, chunks=False)  # confluent-kafka is about to raise TypeError
        with self._adding:
            turn = self._turns.setdefault(topic, Turn(self.partitioner, chunks=self._rescue is None))
        with contextlib.suppress(PollerClosedError):
            self.poller.track(topic)
        return turn

    def _fall_back(self, topic: str, records: int = 1) -> None:
        """Note that the producer did not know a partition of ours: a shared poller may be ahead of it."""
        self._fallbacks += records
        self._turn(topic).end()
        with contextlib.suppress(PollerClosedError):
            self.poller.refresh("the producer does not know a partition")

    # -- life ----------------------------------------------------------------------------------------

    def _follow(
        self, config: Mapping[str, Any], poller: MetadataPoller | None, options: Mapping[str, Any]
    ) -> None:
        """Make the partitioner follow the given poller, or one of our own."""
        if poller is not None:
            self.poller = self._reports.poller = poller
            registration = _registered(poller, self.partitioner)
            self._dropped = weakref.finalize(self, _unregister, registration)
            return
        self._source = ConfluentMetadataSource(config, producer=self)
        self.poller = self._reports.poller = MetadataPoller(self._source, (), **options)
        # Neither the poller nor its source keeps the producer alive. Whoever drops it must not wait.
        self._dropped = weakref.finalize(self, _close_poller, self.poller, self.partitioner, 0.0)
        _exclusive.add(self.partitioner)
        self.poller.register(self.partitioner)
        self.poller.start()

    def close(self) -> bool:
        """Send what is queued and close, as ``confluent_kafka.Producer.close`` does; idempotent.

        The producer's own poller is closed first; a given one only loses the partitioner.
        """
        self._finish()
        closed: bool = super().close()
        return closed

    def __enter__(self) -> Self:
        """Return the producer."""
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Send what is queued and close."""
        self._finish()
        return super().__exit__(kind, error, trace)

    def _finish(self) -> None:
        if self._rescue is not None:
            self.flush()
        self._stop_following()

    def _stop_following(self) -> None:
        undone = self._dropped.detach()
        if undone is None:
            return
        if self._source is None:
            _unregister(*undone[2])
            return
        _close_poller(self.poller, self.partitioner, _CLOSE_LIMIT_S)
        self._source.release()  # a fetch that outlives the limit must not touch a handle that is closed


def _registered(poller: MetadataPoller, partitioner: Partitioner) -> Registration | None:
    try:
        return poller.register(partitioner)
    except ConfigurationError:  # registered already: by the user, or by another producer that shares both
        return None


def _unregister(registration: Registration | None) -> None:
    if registration is not None:
        registration.close()


def _close_poller(poller: MetadataPoller, partitioner: Partitioner, limit: float) -> None:
    _exclusive.discard(partitioner)
    poller.close(limit)


def _inherits(partitioner: Partitioner, *methods: str) -> bool:
    """Tell whether these methods are a built-in's own, so that we know what they would answer."""
    kind = type(partitioner)
    return any(
        all(getattr(kind, name) is getattr(builtin, name) for name in methods)
        for builtin in (StickyPartitioner, AdaptivePartitioner)
    )


def _unknown_partition(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == _UNKNOWN_PARTITION


def _encoded(data: str | bytes | None) -> bytes | None:
    """Encode text as confluent-kafka does, so that it is hashed as it is sent."""
    return data.encode() if isinstance(data, str) else data


def _refused(messages: list[batches.Message]) -> list[batches.Message]:
    """Return the messages that failed because the producer does not know the partition, for another try."""
    refused = []
    for message in messages:
        error = message.get("_error")
        if error is not None and error.code() == _UNKNOWN_PARTITION:
            del message["_error"]
            refused.append(message)
    return refused
