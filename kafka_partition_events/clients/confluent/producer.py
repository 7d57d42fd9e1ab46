"""A confluent-kafka producer whose records go where a partitioner says."""

import math
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from attrs import evolve
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_partition_events.clients.confluent import batches, settings
from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.following import Following, check_free
from kafka_partition_events.clients.confluent.reports import OnDelivery, Reports
from kafka_partition_events.clients.confluent.rescue import Rescue, as_list, refuse_with
from kafka_partition_events.clients.confluent.stats import ProducerStats
from kafka_partition_events.clients.confluent.turns import linger_seconds
from kafka_partition_events.clients.held import Held
from kafka_partition_events.clients.rerouting import noting_homes, reroutes
from kafka_partition_events.clients.rescue import RescueLimits, RescueMode, checked_mode
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.events import TopicCounts
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner

_produce = Producer.produce
_produce_batch = Producer.produce_batch
_poll = Producer.poll
_flush = Producer.flush
_FLUSH_SLICE_S = 0.02
"""How long ``flush`` waits before it looks after what is to be sent again."""


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
        check_free(self.partitioner)
        self._deliveries = self.partitioner.deliveries
        self._reports = Reports(self.partitioner)
        full = settings.with_hash({**config, **kwargs}, self.partitioner.hash_name)
        full = settings.with_requests_in_flight(full)
        self._rescue: Rescue | None = None
        if (mode := checked_mode(rescue, rescue_limits)) is not None:
            refuse_with(full)
            self._rescue = Rescue(mode, rescue_limits or RescueLimits(), self._reports)
        self._tracks = not settings.only_errors_are_reported(full)
        self._default_callback = full.get("on_delivery")
        full = settings.with_error_callback(full, self._reports.client_error)
        super().__init__(full)
        self._deliveries.wait_for_batches(linger_seconds(full))
        self._chooser = Chooser(self.partitioner, full, chunks=self._rescue is None)
        self._turns = self._chooser.turns
        self._reroutes = reroutes(self.partitioner)
        self._following = Following(self, self.partitioner, poller, full, poller_options or {})
        self.poller = self._chooser.poller = self._reports.poller = self._following.poller

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
            turn = self._chooser.turn(topic)
        if partition != UNASSIGNED:
            callback = on_delivery if callback is None else callback
            _produce(self, topic, value, key, partition, callback, None, timestamp, headers)
            return
        # An empty key is no short cut: librdkafka's ``consistent_random`` takes it for no key at all.
        for partition in turn.chunk if key is None else turn.keyed if key else ():  # noqa: B007, PLR1704
            break  # a `next` that needs no call
        else:
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
            self._chooser.fall_back(topic)
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
                    self._rescue.account.settled(held)
                    raise
                return
        if key is not None and self._reroutes:
            headers = as_list(headers)
            with noting_homes(headers):
                partition = self._chooser.choose(topic, key, value)
        else:
            partition = self._chooser.choose(topic, key, value)
        route = self._chooser.followed(topic, partition) if self._tracks else None
        report = callback
        if route is not None:
            self._deliveries.sent(topic, partition, route.leader(partition))
            report = self._reports.for_record(theirs)
        try:
            _produce(self, topic, value, key, partition, report, None, timestamp, headers)
        except BaseException as error:
            if route is not None:
                self._deliveries.withdrawn(topic, partition)
            final = key is not None and not self.partitioner.falls_back
            if final or partition == UNASSIGNED or not _unknown_partition(error):
                raise
            self._chooser.fall_back(topic)
            _produce(self, topic, value, key, UNASSIGNED, callback, None, timestamp, headers)

    def _produce_held(self, rescue: Rescue, held: Held) -> None:
        """Send a record that may be rescued, or a copy of it."""
        topic = held.topic
        partition = self._chooser.choose(topic, None, held.data)
        route = self.partitioner.route(topic)
        if held.attempts and route is not None and route.avoids(partition):  # a copy is no probe
            partition = self._chooser.choose(topic, None, held.data)
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
            self._chooser.fall_back(topic)
            self._place(rescue, held, UNASSIGNED)

    def _place(self, rescue: Rescue, held: Held, partition: int) -> None:
        headers = rescue.headers(held)
        report = rescue.placing(held, partition)
        try:
            _produce(self, held.topic, held.data, None, partition, report, None, held.timestamp_ms, headers)
        except BaseException:
            rescue.account.unplace(held, partition)
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
        if callback is None:
            callback = on_delivery
        if partition != UNASSIGNED:
            return _produce_batch(self, topic, messages, partition, callback)
        alone: list[batches.Message] = []
        if self._rescue is not None:
            alone, messages = batches.without_place(messages)
        if self._reroutes and self._chooser.any_offline(topic):
            keyed, messages = batches.with_key(messages)
            alone += keyed
        chooser = self._chooser
        parts = batches.split(
            messages,
            choose=lambda key, value: chooser.choose(topic, key, value),
            take_turn=(lambda count: chooser.choose_for(topic, count)) if chooser.by_turns else None,
            native_keys=chooser.places_keys(topic),
            keyless=chooser.keyless,
        )
        sent = self._produce_each(topic, alone, callback)
        for chosen, part in parts:
            sent += self._produce_part(topic, part, chosen, callback)
            may_fall_back = chosen != UNASSIGNED and self.partitioner.falls_back
            if may_fall_back and (refused := batches.refused(part)):
                chooser.fall_back(topic, len(refused))
                sent += _produce_batch(self, topic, refused, UNASSIGNED, callback)
        return sent

    def _produce_part(
        self, topic: str, part: list[batches.Message], partition: int, callback: OnDelivery | None
    ) -> int:
        """Send the part of a batch that goes to one partition, and keep account of its first record."""
        followed = self._tracks and partition != UNASSIGNED
        route = self._chooser.followed(topic, partition) if followed else None
        if route is None:
            return _produce_batch(self, topic, part, partition, callback)
        first = part[0]
        theirs = first.get("callback")
        report = self._reports.for_record(theirs or callback or self._default_callback)
        self._deliveries.sent(topic, partition, route.leader(partition))
        taken = False
        try:
            first["callback"] = report
            sent = _produce_batch(self, topic, part, partition, callback)
            taken = "_error" not in first
        finally:
            if not taken:
                self._deliveries.withdrawn(topic, partition)
            if theirs is None:
                del first["callback"]
            else:
                first["callback"] = theirs
        return sent

    def _produce_each(self, topic: str, messages: list[batches.Message], callback: OnDelivery | None) -> int:
        """Send records that may need a header of ours; a batch can't hand over headers."""
        sent = 0
        for message in messages:
            try:
                theirs = message.get("callback") or callback
                self.produce(topic, message.get("value"), message.get("key"), callback=theirs)
                sent += 1
            except BufferError:
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001 - librdkafka's public name
            except KafkaException as error:
                message["_error"] = error.args[0]
        return sent

    @property
    def stats(self) -> ProducerStats:
        """What became of records whose partition was not given."""
        stats = self._chooser.stats
        return stats if self._rescue is None else evolve(stats, rescue=self._rescue.account.stats)

    def topic_counts(self) -> tuple[TopicCounts, ...]:
        """Return what was counted of each topic since the producer was made, for a `CountersReporter`."""
        counted = self._chooser.counted()
        if self._rescue is not None:
            saved = self._rescue.account.saved()
            counted = {topic: evolve(own, rescued=saved.get(topic, 0)) for topic, own in counted.items()}
        return tuple(counted.values())

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
        waiting = 0 if self._rescue is None else len(self._rescue.account.queue)
        return super().__len__() + waiting

    def _listened(self) -> None:
        """Judge the brokers by what callbacks have told, and send again what is to be rescued."""
        self._reports.heard()
        if (rescue := self._rescue) is not None:
            rescue.hedge()
            rescue.drain(lambda held: self._produce_held(rescue, held))

    # -- life ----------------------------------------------------------------------------------------

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
        self._following.end()


def _unknown_partition(error: BaseException) -> bool:
    return isinstance(error, KafkaException) and error.args[0].code() == batches.UNKNOWN_PARTITION
