"""A confluent-kafka producer whose records go where a partitioner says."""

import contextlib
import math
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any

from attrs import evolve
from confluent_kafka import KafkaError, KafkaException, ThrottleEvent
from confluent_kafka.cimpl import Producer

from kafka_partition_events.clients.attaching import AttachPlan, key_stats, rescue_stats
from kafka_partition_events.clients.confluent import settings
from kafka_partition_events.clients.confluent.adapter import ConfluentAdapter, Unmade, lost_broker
from kafka_partition_events.clients.confluent.choosing import Chooser, ProducerStats
from kafka_partition_events.clients.confluent.detours import Detours
from kafka_partition_events.clients.confluent.handle_metadata import CLOSED, HandleMetadata
from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource, policies_by
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.confluent.turns import CHUNK_S, ShortCuts, Turn
from kafka_partition_events.clients.flight.detour import StandbyMode
from kafka_partition_events.clients.flight.key_moves import KeysMode, MoveKeys
from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner

_produce_batch = Producer.produce_batch
_poll = Producer.poll
_flush = Producer.flush
_SLICE_S = 0.02  # that ``flush`` waits before it sends copies and serves the further handles
_POLL_SLICE_S, _IDLE_SLICE_S = 0.01, 0.1  # before brokers are judged again, with something in flight or not
_OTHER_SLICE_S = 0.002  # that ``poll`` waits for the first handle while there is another one to be served
_POLL_EVERY_S = 0.0002  # between two calls of ``poll(0)`` that ask librdkafka: so late a callback may be
_JUDGE_EVERY_S = 0.005  # between two that judge brokers; silence is found after 25 ms at the soonest

_NO_CUTS = ShortCuts()


class PartitioningProducer(Handle):
    """A ``confluent_kafka.Producer`` that asks a `Partitioner` where records go.

    It is a plain producer in every other respect: settings, methods, errors, thread-safety. A partition that
    the caller gives (0 or more) is taken as it is; others are chosen before ``produce``.

    librdkafka places what it places alike: keyed records under a built-in partitioner that pins keys, and
    what there is no metadata for, by the hash of the setting ``partitioner`` (CRC-32 by default). Where the
    partitioner places keys by another rule (`Partitioner.requires_metadata`), `produce` waits for the topic's
    first metadata; an event loop calls `wait_for_topic` before, in a thread.

    With ``acks=all`` a replica that hangs blocks the connections to its leaders. While one is suspect,
    records for partitions that do not need it go by a second handle (``standby``), which is polled, flushed,
    purged and closed with this one; those with a key as soon as nothing of the key is outstanding on the
    first. Statistics are of the first handle only.

    Attributes:
        partitioner: Who chooses.
        poller: Who follows the cluster; register listeners there.
    """

    # Read in 5 ns; what is in the dictionary of a class of C, in 60:
    __slots__ = ("_keyless", "_log_keys", "_next_poll", "_turns", "_unkeyed")
    partitioner: Partitioner
    poller: MetadataPoller
    _judge_at = -math.inf  # when brokers are judged next

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        partitioner: Partitioner | str | None = None,
        poller: MetadataPoller | None = None,
        *,
        rescue: RescueMode | None = None,
        standby: StandbyMode = "auto",
        keys: KeysMode | MoveKeys = "stay",
        poller_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make a producer.

        Args:
            config: confluent-kafka's settings.
            partitioner: Who chooses; `AdaptivePartitioner` when None. Producers can share one if they
                share the poller, too. A text is librdkafka's setting of that name.
            poller: Who follows the cluster, and is left running; the topics that are written are tracked
                there. When None, the producer makes one, for exactly these topics, and closes it.
            rescue: Whether records without a key and a partition are sent again to another partition: None,
                ``"failed"`` (when they time out) or ``"hedge"`` (also when they wait for a suspect broker, or
                behind such a record; then also those with a key, if these move). Delivery is then
                at-least-once: see ``docs/guarantees.md``.
            standby: Whether records may go by a second handle where a replica blocks the connections of the
                first (``acks=all``, without transactions): ``"auto"`` (made when it is needed, closed when it
                was idle for a minute; has threads, connections and a byte limit of its own) or ``"off"``.
            keys: ``"stay"``: records with a key wait for its partition. ``"move"``: while that needs a sick
                broker, another one takes them, and they name what they come after, so that `OrderedConsumer`
                reads each key in its order; a plain consumer may read a newer record first. `MoveKeys` has
                limits. See ``docs/keys.md``.
            poller_options: Arguments of `MetadataPoller` for the poller that is made here, such as
                ``{"interval": 5.0}``.
            **kwargs: Passed to confluent-kafka, such as ``logger``, or settings: ``**{"linger.ms": 5}``.

        Raises:
            TypeError: there are no settings, or not as a mapping.
            ConfigurationError: ``partitioner`` is no partitioner, or in the config means another hash than
                the partitioner's, or the arguments contradict each other, or the settings;
                ``delivery.report.only.error`` is set.
            KafkaException: confluent-kafka refuses a setting.
        """
        if isinstance(partitioner, str):
            kwargs, partitioner = {**kwargs, "partitioner": partitioner}, None
        given = settings.merged(config, kwargs)
        partitioner = self.partitioner = AdaptivePartitioner() if partitioner is None else partitioner
        plan = AttachPlan(
            self, partitioner, rescue, standby, keys, poller, poller_options or {},
            transaction=None if given.get("transactional.id") is None else "transactional.id",
            acks=settings.acks(given), handles=2,
        )  # fmt: skip
        if settings.is_true(given, "delivery.report.only.error"):
            raise ConfigurationError(
                "delivery.report.only.error can't be used: which brokers answer is seen by delivery reports. "
                "Remove the setting"
            )
        full = settings.with_requests_in_flight(settings.with_hash(given, partitioner))
        reports, suspects = plan.reports, partitioner.deliveries.suspects

        def lost(error: KafkaError) -> None:  # the callbacks hold no reference to the producer
            if (broker := lost_broker(error)) is not None:
                reports.unreachable(broker)

        def throttled(throttle: ThrottleEvent) -> None:
            reports.deliveries.throttled(throttle.broker_id, throttle.throttle_time)

        full = settings.with_callback(full, "error_cb", lost)
        full = settings.with_callback(full, "throttle_cb", throttled)
        super().__init__(full)
        self._settings = full  # which source and further handles read when they connect
        self._chooser = chooser = Chooser(partitioner, full, chunks=rescue is None)
        self._turns: dict[str, Turn] = chooser.turns
        self._keyless = chooser.keyless
        self._next_poll = -math.inf
        self._take(chooser.cuts)
        is_own = poller is None
        if poller is None:
            source = ConfluentMetadataSource(full, suspects=suspects)
            poller = MetadataPoller(source, (), **(poller_options or {}))
        followed = self.poller = chooser.poller = poller
        self._metadata = metadata = HandleMetadata(self, chooser, followed)
        self._detours = detours = Detours(
            self, full, lambda: followed.cluster, suspects, throttled, count=plan.further
        )
        self._adapter = adapter = ConfluentAdapter(
            weakref.ref(self), chooser, metadata, detours, full.get("on_delivery"),
            settings.most_waiting(full), settings.delivery_seconds(full),
        )  # fmt: skip
        self._flight, self._follower = plan.begin(
            adapter, followed, chooser.written, partial(policies_by, full),
            linger_s=settings.linger_seconds(full), learn=metadata.learn,
            close_short_cut=chooser.close_short_cut,
        )  # fmt: skip
        adapter.flight, chooser.ask_for = self._flight, self._follower.ask_for
        if self._flight.keyed is not None:
            chooser.keys = self._flight.keyed.order
        if is_own:
            poller.start()

    # -- producing -----------------------------------------------------------------------------------

    def produce(  # noqa: C901, PLR0912 - the hot path
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
            BufferError: the producer's queue is full; for another handle, all together are.
            KafkaException: librdkafka refuses the record; ``_UNKNOWN_TOPIC`` if the partitioner requires the
                topic's metadata to place the key, and nothing is known of the topic after `METADATA_WAIT_S`.
        """
        # The hot path: every line was measured (benchmarks/produce.py), and each argument passed costs
        # a little. Both names of the callback are one to confluent-kafka; a None of the first would win.
        if callback is None:
            callback = on_delivery
        if partition != UNASSIGNED:
            try:
                is_followed = topic in self._turns
            except AttributeError:  # a subclass has not called `__init__`, here and below
                is_followed = False
            if not is_followed:
                self._chooser.turn(topic)
            self.plain(topic, value, key, partition, callback, None, timestamp, headers)
            return
        where: int | None = UNASSIGNED
        log_key = None
        try:
            if key is None or self._keyless:
                for where in self._unkeyed[topic]:  # noqa: B007
                    break  # a `next` that needs no call
                else:
                    where = None
            elif key:
                log_key = self._log_keys[topic]
            else:  # librdkafka's ``consistent_random`` takes an empty key for none at all
                where = None
        except (KeyError, AttributeError):
            where = None
        if where is None:
            where, log_key = self._ask(Record(topic, value, key, callback, timestamp, headers))
            if where is None:
                return
        try:
            if headers is not None or timestamp != 0:
                self.plain(topic, value, key, where, callback, None, timestamp, headers)
            elif callback is not None:
                self.plain(topic, value, key, where, callback)
            else:
                self.plain(topic, value, key, where)
            if log_key is not None:
                log_key(key)
        except KafkaException as error:
            if where == UNASSIGNED or not self._adapter.knows_no_such_partition(error):
                raise
            self._chooser.fall_back(topic)
            self.plain(topic, value, key, UNASSIGNED, callback, None, timestamp, headers)

    def _ask(self, record: Record) -> tuple[int | None, Callable[[Any], None] | None]:
        """Return where a record goes that found no short cut, and what logs its key; None: it is sent."""
        chooser, topic, key = self._chooser, record.topic, record.key
        turn = chooser.turn(topic)
        if self._unkeyed is not chooser.cuts.unkeyed:  # `poll` found that a record is to be tracked
            self._take(chooser.cuts)
            turn.drop()
        if key and turn.counted_keys is not None:  # see `KeyOrder`
            is_counted, log_key = turn.counted_keys
            if not is_counted(key):
                return UNASSIGNED, log_key
        chosen, is_plain = chooser.begin_chunk(topic, key, self._flight.next_sample)
        if chosen is not None and is_plain:
            return chosen, None
        self._adapter.send(record, chosen)
        return None, None

    def _take(self, cuts: ShortCuts) -> None:
        self._unkeyed, self._log_keys = cuts.unkeyed, cuts.log_keys

    def _track_next(self, now: float) -> None:
        """Have the next record, of whichever topic, be tracked if none was lately."""
        if now >= self._flight.next_sample + CHUNK_S:
            self._take(_NO_CUTS)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = UNASSIGNED,
        callback: Callable[..., Any] | None = None,
        on_delivery: Callable[..., Any] | None = None,
    ) -> int:
        """Send many records; see ``confluent_kafka.Producer.produce_batch``.

        A batch without keys and partitions goes to one turn's partition, at most 10,000 records of it. A
        record's own ``"partition"`` is obeyed, as confluent-kafka documents (its 2.16 ignores it).

        Raises:
            KafkaException: ``_UNKNOWN_TOPIC``, as from `produce`; nothing was sent.
        """
        self._chooser.turn(topic)  # which is followed, wherever these go
        outcome = on_delivery if callback is None else callback
        if partition != UNASSIGNED:
            return _produce_batch(self, topic, messages, partition, outcome)
        return self._adapter.send_batch(topic, messages, outcome)

    def wait_for_topic(self, topic: str, timeout: float) -> None:
        """Wait until a topic is known, so that `produce` need not; one that is missing is created as by that.

        Args:
            topic: The topic, which is followed from now on as if it were written.
            timeout: Seconds.

        Raises:
            KafkaException: ``_UNKNOWN_TOPIC``: it is not, after so many seconds; as from `produce`.
            RuntimeError: the producer or its poller is closed.
        """
        self._chooser.turn(topic)
        self._metadata.wait_for_topic(topic, timeout)

    @property
    def stats(self) -> ProducerStats:
        """What became of records whose partition was not given."""
        return evolve(self._chooser.stats, keys=key_stats(self), rescue=rescue_stats(self))

    # -- serving -----------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """Serve callbacks, and send the copies that follow; see ``confluent_kafka.Producer.poll``."""
        if timeout == 0:  # as many applications do for each record
            now = time.monotonic()
            try:
                is_early = now < self._next_poll
            except AttributeError:  # a subclass has not called `__init__`
                raise RuntimeError(CLOSED) from None
            return 0 if is_early else self._poll_once(0.0)
        deadline = math.inf if timeout < 0 else time.monotonic() + timeout
        while True:
            most = _POLL_SLICE_S if len(self) else _IDLE_SLICE_S
            left = deadline - time.monotonic()
            served = self._poll_once(max(0.0, min(left, most)))
            if served or time.monotonic() >= deadline:
                return served

    def _poll_once(self, timeout: float) -> int:
        """Serve all handles; judge brokers if that was not done lately, or something may follow at once."""
        others, flight, served = self._detours.open, self._flight, 0
        self._next_poll = time.monotonic() + _POLL_EVERY_S
        try:
            served = int(_poll(self, min(timeout, _OTHER_SLICE_S) if others else timeout))
            if others:  # callbacks may have taken long, and one be closed by now
                served += sum(int(_poll(other, 0)) for other in self._detours.open)
        except BaseException:
            self._next_poll = -math.inf  # the application's callback has raised, or the producer is closed
            raise
        finally:
            now = time.monotonic()
            if now >= self._judge_at or (served and not flight.is_idle):
                self._judge_at = now + _JUDGE_EVERY_S
                self._track_next(now)
                flight.served()
        return served

    def flush(self, timeout: float = -1) -> int:
        """Wait until all records are delivered or failed, those included that are to be sent again.

        See ``confluent_kafka.Producer.flush``.
        """
        self._chooser.process.check()
        deadline = math.inf if timeout < 0 else time.monotonic() + timeout
        self._track_next(time.monotonic())
        while True:
            left = deadline - time.monotonic()
            try:
                # With nothing of its own librdkafka's flush does not wait.
                wait = _flush if super().__len__() else _poll
                wait(self, max(0.0, min(left, _SLICE_S)))
                for other in self._detours.open:
                    _flush(other, max(0.0, min(left, _POLL_SLICE_S)))
            finally:
                self._flight.served()
            if not len(self) or left <= 0:
                return len(self)

    def __len__(self) -> int:
        """Return how many records and reports wait, on either way, and those that are to be sent again."""
        return super().__len__() + sum(map(len, self._detours.open)) + self._flight.waiting

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Drop what waits, on either way; see ``confluent_kafka.Producer.purge``."""
        super().purge(in_queue, in_flight, blocking)
        self._next_poll = -math.inf  # there are reports to be served now
        if in_queue:
            self._flight.purge()
        for other in self._detours.open:
            other.purge(in_queue, in_flight, blocking)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use other credentials from now on; see ``confluent_kafka.Producer.set_sasl_credentials``.

        The metadata source connects with them once those that it has are refused.
        """
        super().set_sasl_credentials(username, password)
        self._settings |= {"sasl.username": username, "sasl.password": password}
        for other in self._detours.open:
            other.set_sasl_credentials(username, password)

    # -- life ----------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Send what is queued and close, as ``confluent_kafka.Producer.close`` does; idempotent.

        The producer's own poller is closed first; a given one only loses the partitioner.
        """
        return bool(self._end(super().close))

    def _end(self, close: Callable[[], object]) -> object:
        if self._metadata.ended:
            return close()
        self._chooser.process.check()  # librdkafka would wait for its threads, which are the parent's
        try:
            if self._flight.waiting or self._flight.rescue is not None or self._detours.open:
                self.flush()
        finally:  # the application's callback may have raised
            self._detours.close()
            self._follower.leave()
            self._metadata.release()  # a fetch that outlives the limit must not touch a closed handle
            self._next_poll = -math.inf  # the next one raises
            self._flight.copies.close()  # what fails from here on has its outcome
            try:
                result = close()
            finally:
                self._flight.end()
        return result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is queued and close. An exception of the application's own is never replaced."""
        with contextlib.nullcontext() if error is None else contextlib.suppress(Exception):
            self._end(partial(super().__exit__, kind, error, trace))


# A `__getattr__` of the class would do, too, and cost each record a fifth of the time of a plain `produce`.
for _part in ("chooser", "adapter", "flight", "metadata", "detours", "settings"):
    setattr(PartitioningProducer, f"_{_part}", Unmade())
