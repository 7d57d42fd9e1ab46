"""A confluent-kafka producer whose records go where a partitioner says."""

import contextlib
import math
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NoReturn

from attrs import evolve
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import Producer

from kafka_partition_events.clients.confluent import batches, settings
from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.following import Following
from kafka_partition_events.clients.confluent.reports import OnDelivery, Reports
from kafka_partition_events.clients.confluent.rescue import Rescue, refuse_with
from kafka_partition_events.clients.confluent.sending import Sending, is_unknown_partition
from kafka_partition_events.clients.confluent.standby import KeyOrder, Standby, check_keys, waits_for_replicas
from kafka_partition_events.clients.confluent.stats import ProducerStats
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.confluent.turns import linger_seconds
from kafka_partition_events.clients.confluent.unassigned import QUEUE_FULL, NotPlacedError, Record, Unassigned
from kafka_partition_events.clients.rerouting import reroutes
from kafka_partition_events.clients.rescue import RescueLimits, RescueMode, checked_mode
from kafka_partition_events.clients.standby import StandbyMode, checked_standby
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.events import TopicCounts
from kafka_partition_events.metadata.poller import MetadataPoller, check_free
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.routing.lanes import STANDBY

_produce_batch = Producer.produce_batch
_poll = Producer.poll
_flush = Producer.flush
_SLICE_S = 0.02
"""How long ``flush`` waits before it looks after what is to be sent again, and after the other handle."""
_POLL_SLICE_S = 0.01
_IDLE_SLICE_S = 0.1
"""How long ``poll`` waits before it judges anew, with and without something outstanding."""
_OTHER_SLICE_S = 0.002
"""How long ``poll`` waits for the first handle while there is another one to be served."""


class PartitioningProducer(Handle):
    """A ``confluent_kafka.Producer`` that asks a `Partitioner` where records go.

    It is a plain producer in every other respect: the same settings, methods, errors and thread-safety. A
    partition that the caller gives (0 or more) is taken as it is.

    librdkafka can't call Python to choose a partition, so it is chosen here, before ``produce``. Where the
    answer is the same, librdkafka computes it itself: keyed records under a built-in partitioner that pins
    keys. As long as there is no metadata librdkafka chooses too, by the same hash: its own by default
    (CRC-32, or what the setting ``partitioner`` says), so a key stays where a plain producer has put it. A
    partitioner that was given another hash than that setting is refused.

    With ``acks=all`` a replica that hangs blocks the connections to its leaders. While one is suspect,
    unkeyed records go to partitions that do not need it by a second handle (``standby``), which is polled,
    flushed, purged and closed with this one. Statistics are of the first handle only.

    Attributes:
        partitioner: Who chooses.
        poller: Who follows the cluster; register listeners there.
    """

    partitioner: Partitioner
    poller: MetadataPoller

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        partitioner: Partitioner | str | None = None,
        poller: MetadataPoller | None = None,
        *,
        rescue: RescueMode | None = None,
        rescue_limits: RescueLimits | None = None,
        standby: StandbyMode = "lazy",
        standby_keys: bool = False,
        poller_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make a producer.

        Args:
            config: confluent-kafka's settings.
            partitioner: Who chooses; `AdaptivePartitioner` when None. Producers can share one if they
                share the poller too. A text is librdkafka's setting of that name.
            poller: Who follows the cluster. When None, the producer makes one, for exactly the topics that it
                writes, and closes it. A given one is used and left running; the topics that are written are
                tracked there.
            rescue: Whether unkeyed records without a partition are sent again to another partition: None,
                ``"failed"`` (when they time out) or ``"hedge"`` (also when they wait for a broker that has
                become suspect, or stand behind such a record, and a copy would not). Delivery is then
                at-least-once: see ``docs/guarantees.md``.
            rescue_limits: How many copies, and how many bytes are kept for them.
            standby: Whether unkeyed records may go by a second handle while a write that waits for a replica
                blocks the connections of the first (``acks=all``): ``"lazy"`` (made when it is needed, closed
                when it was idle for a minute), ``"warm"`` (made now, and kept) or ``"off"``. Once made it has
                threads, connections and a byte limit of its own. Never used with transactions or another
                ``acks``.
            standby_keys: Whether keyed records may, too: if nothing of their partition is outstanding on the
                first handle, and likewise on the way back, so that keys keep their order. Each keyed record
                is then followed, which costs throughput.
            poller_options: Arguments of `MetadataPoller` for the poller that is made here, such as
                ``{"interval": 5.0}``.
            **kwargs: Passed to confluent-kafka, such as ``logger``, or settings: ``**{"linger.ms": 5}``.

        Raises:
            TypeError: there are no settings, or not as a mapping.
            ConfigurationError: ``partitioner`` is no partitioner, or in the config means another hash than
                the partitioner's, or the arguments contradict each other; ``rescue`` or a warm ``standby``
                with ``transactional.id``.
            KafkaException: confluent-kafka refuses a setting.
        """
        if isinstance(partitioner, str):
            kwargs, partitioner = {**kwargs, "partitioner": partitioner}, None
        given = settings.merged(config, kwargs)
        self.partitioner = AdaptivePartitioner() if partitioner is None else partitioner
        if not isinstance(self.partitioner, Partitioner):
            raise ConfigurationError(
                f"partitioner must be an object, such as AdaptivePartitioner(), not {partitioner!r}"
            )
        if poller is not None and poller_options:
            raise ConfigurationError("poller_options are for the producer's own poller; give one of the two")
        check_free(self.partitioner, poller)
        self._deliveries = self.partitioner.deliveries
        self._reports = Reports(self.partitioner)
        full = settings.with_hash(given, self.partitioner)
        full = settings.with_requests_in_flight(full)
        self._rescue: Rescue | None = None
        if (mode := checked_mode(rescue, rescue_limits)) is not None:
            refuse_with(full)
            self._rescue = Rescue(mode, rescue_limits or RescueLimits(), self._reports)
        full = settings.with_error_callback(full, self._reports.client_error)
        waits = waits_for_replicas(full)
        transaction = None if full.get("transactional.id") is None else "transactional.id"
        way = checked_standby(standby, transaction, waits_for_replicas=waits)
        check_keys(standby, full, keys=standby_keys)
        super().__init__(full)
        self._deliveries.wait_for_batches(linger_seconds(full))
        if waits:
            self._deliveries.wait_for_replicas()
        self._chooser = Chooser(self.partitioner, full, chunks=self._rescue is None)
        self._turns = self._chooser.turns
        self._unassigned: Unassigned | None = None
        if not self.partitioner.falls_back:
            self._unassigned = self._keep_unassigned(full)
        self._following = Following(
            self, self.partitioner, poller, full, poller_options or {}, self._chooser, self._unassigned
        )
        self.poller = self._reports.poller = self._following.poller
        self._standbys: Mapping[int, Standby] = {}
        if way != "off":
            poller = self.poller
            self._standbys = {
                number: Standby(mode, full, lambda: poller.cluster, self._deliveries.suspects)
                for number, mode in enumerate((way, "lazy"), STANDBY)
            }
            self._deliveries.has_standby(len(self._standbys))
            if standby_keys:
                self._chooser.native_keys = False
            if way == "warm":
                self._standbys[STANDBY].handle()
        self._sending = Sending(
            partitioner=self.partitioner,
            chooser=self._chooser,
            reports=self._reports,
            tracks=not settings.only_errors_are_reported(full),
            reroutes=reroutes(self.partitioner),
            default_callback=full.get("on_delivery"),
            most_waiting=settings.most_waiting(full),
            rescue=self._rescue,
            standbys=self._standbys,
            keys=KeyOrder() if self._standbys and standby_keys else None,
        )

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
            BufferError: the producer's queue is full; for another handle, all together are.
            KafkaException: librdkafka refuses the record.
        """
        # The hot path: every line was measured (benchmarks/produce.py). Both names of the callback are one
        # argument to confluent-kafka, and a None of the first would win over the second.
        try:
            turn = self._turns[topic]
        except KeyError:
            turn = self._chooser.turn(topic)
        if partition != UNASSIGNED:
            turn.written_past = True
            callback = on_delivery if callback is None else callback
            self.plain(topic, value, key, partition, callback, None, timestamp, headers)
            return
        # An empty key is no short cut: librdkafka's ``consistent_random`` takes it for no key at all.
        for partition in turn.chunk if key is None else turn.keyed if key else ():  # noqa: B007, PLR1704
            break  # a `next` that needs no call
        else:
            callback = on_delivery if callback is None else callback
            if key is not None and self._unassigned is not None and self._chooser.is_keyed(key):
                self._produce_unassigned(
                    self._unassigned, Record(topic, value, key, callback, timestamp, headers)
                )
            else:
                self._sending.record(self, Record(topic, value, key, callback, timestamp, headers))
            return
        try:
            if callback is None and on_delivery is None and headers is None and timestamp == 0:
                self.plain(topic, value, key, partition)
            else:
                callback = on_delivery if callback is None else callback
                self.plain(topic, value, key, partition, callback, None, timestamp, headers)
        except KafkaException as error:
            if partition == UNASSIGNED or not is_unknown_partition(error):
                raise
            self._chooser.fall_back(topic)
            self.plain(topic, value, key, UNASSIGNED, callback, None, timestamp, headers)

    def _produce_unassigned(self, unassigned: Unassigned, record: Record) -> None:
        """Send a keyed record that librdkafka must not place, as soon as its topic is known."""
        topic, value, key, callback, timestamp, headers = record
        if not unassigned.takes(topic):
            with contextlib.suppress(NotPlacedError):
                self._sending.record(self, record)
                return
        wrong = not batches.acceptable([{"value": value, "key": key, "headers": headers}])
        if wrong or self._following.ended:
            self.plain(topic, value, key, UNASSIGNED, callback, None, timestamp, headers)  # which says so
            return
        if len(self) >= self._sending.most_waiting:
            raise BufferError(QUEUE_FULL)
        unassigned.add(record._replace(callback=callback or self._sending.default_callback))

    def _keep_unassigned(self, config: Mapping[str, Any]) -> Unassigned:
        ours = weakref.ref(self)
        partitioner = self.partitioner

        def send(record: Record) -> None:
            if (producer := ours()) is not None:
                producer._sending.record(producer, record)  # noqa: SLF001 - our own

        return Unassigned(
            lambda topic: partitioner.route(topic) is not None,
            send,
            settings.delivery_limit(config),
            settings.most_bytes(config),
        )

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
        self._chooser.turn(topic).written_past = True
        if partition != UNASSIGNED:
            return _produce_batch(self, topic, messages, partition, callback)
        alone: list[batches.Message] = []
        sending = self._sending
        keyed_alone = sending.keys is not None or (sending.reroutes and self._chooser.any_offline(topic))
        keyed_alone = keyed_alone or (self._unassigned is not None and self._unassigned.takes(topic))
        one_by_one = keyed_alone or self._rescue is not None or self._unassigned is not None
        if one_by_one and not batches.acceptable(messages):
            return _produce_batch(self, topic, messages, partition, callback)  # which refuses all of them
        if self._rescue is not None:
            alone, messages = batches.without_place(messages)
        if keyed_alone:
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
            if chosen == UNASSIGNED and self._unassigned is not None:
                sent += self._produce_each(topic, part, callback)
                continue
            sent += sending.part(self, topic, part, chosen, callback)
            if chosen != UNASSIGNED:  # the handle may not know that partition yet
                sent += self._produce_each(topic, batches.refused(part), callback)
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
            saved = self._rescue.account.saved(counted)
            counted = {topic: evolve(own, rescued=saved.get(topic, 0)) for topic, own in counted.items()}
        return tuple(counted.values())

    # -- listening -----------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks, and send again what is to be rescued; see ``confluent_kafka.Producer.poll``."""
        if timeout == 0:  # as many applications do for each record
            return self._poll_once(0)
        deadline = math.inf if timeout < 0 else time.monotonic() + timeout
        while True:
            most = _POLL_SLICE_S if len(self) else _IDLE_SLICE_S
            left = deadline - time.monotonic()
            served = self._poll_once(max(0.0, min(left, most)))
            if served or time.monotonic() >= deadline:
                return served

    def _poll_once(self, timeout: float) -> int:
        others = self._sending.others()
        try:
            if not others:
                return int(_poll(self, timeout))
            served = sum(int(_poll(other, 0)) for other in others)
            return served + int(_poll(self, 0 if served else min(timeout, _OTHER_SLICE_S)))
        finally:
            self._listened()

    def flush(self, timeout: float = -1) -> int:
        """Wait until all records are delivered or failed, those included that are to be sent again.

        See ``confluent_kafka.Producer.flush``.
        """
        deadline = math.inf if timeout < 0 else time.monotonic() + timeout
        if self._rescue is None and not self._standbys and not self._unassigned:
            try:
                waiting = _flush(self, timeout)
            finally:
                self._listened()
            if not self._unassigned:  # else a callback has produced
                return waiting
        while True:
            left = deadline - time.monotonic()
            try:
                # With nothing of its own librdkafka's flush does not wait.
                wait = _flush if super().__len__() else _poll
                wait(self, max(0.0, min(left, _SLICE_S)))
                for other in self._sending.others():
                    _flush(other, max(0.0, min(left, _POLL_SLICE_S)))
            finally:
                self._listened()
            if not len(self) or left <= 0:
                return len(self)

    def __len__(self) -> int:
        """Return how many records and reports wait, on either way, and those that are to be sent again."""
        waiting = 0 if self._rescue is None else self._rescue.account.waiting
        waiting += 0 if self._unassigned is None else len(self._unassigned)
        return super().__len__() + sum(map(len, self._sending.others())) + waiting

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drop what waits, on either way; see ``confluent_kafka.Producer.purge``."""
        super().purge(in_queue, in_flight, blocking)
        if self._rescue is not None and in_queue:
            self._rescue.account.purge()
        if self._unassigned is not None and in_queue:
            self._unassigned.purge()
        for other in self._sending.others():
            other.purge(in_queue, in_flight, blocking)

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit what was produced since it began; see ``confluent_kafka.Producer.commit_transaction``.

        Raises:
            KafkaException: as there; records still wait for their topic to be known.
        """
        if self._unassigned and self.flush(timeout):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "records wait for their topic"))  # noqa: SLF001
        super().commit_transaction(timeout)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Take back what was produced since it began; see ``confluent_kafka.Producer.abort_transaction``."""
        if self._unassigned:
            self._unassigned.purge()
        super().abort_transaction(timeout)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use other credentials from now on; see ``confluent_kafka.Producer.set_sasl_credentials``."""
        super().set_sasl_credentials(username, password)
        self._following.log_in(username, password)
        for standby in self._standbys.values():
            standby.log_in(username, password)

    def _listened(self) -> None:
        """Judge the brokers by what callbacks have told, and send again what is to be rescued."""
        self._reports.heard()
        if self._unassigned:
            self._unassigned.listened()
        for standby in self._standbys.values():
            if standby.open is not None:
                standby.rest()
        if (rescue := self._rescue) is not None:
            rescue.hedge(self.partitioner.route)
            rescue.drain(lambda held: self._sending.held(self, held))

    # -- life ----------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Send what is queued and close, as ``confluent_kafka.Producer.close`` does; idempotent.

        The producer's own poller is closed first; a given one only loses the partitioner.
        """
        if self._is_open:
            self._finish()
        closed: bool = super().close()
        return closed

    @property
    def _is_open(self) -> bool:
        return "_following" in vars(self) and not self._following.ended

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Send what is queued and close. An exception of the application's own is never replaced."""
        try:
            if self._is_open:
                self._finish()
        except Exception:
            if error is None:
                raise
        return super().__exit__(kind, error, trace)

    def _finish(self) -> None:
        if self._rescue is not None or self._unassigned or self._sending.others():
            self.flush()
        for standby in self._standbys.values():
            standby.close()
        self._following.end()


class _Unmade:
    """A part of a producer whose subclass has not called ``__init__``; it raises what a plain one does."""

    def _refuse(self, *_arguments: object) -> NoReturn:
        raise RuntimeError("Producer has been closed")

    __getattr__ = __getitem__ = __bool__ = __iter__ = _refuse


# A `__getattr__` of the class would do, too, and cost each record a fifth of the time of a plain `produce`.
for _part in ("turns", "chooser", "reports", "rescue", "standbys", "sending", "following", "unassigned"):
    setattr(PartitioningProducer, f"_{_part}", _Unmade())
