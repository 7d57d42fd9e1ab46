"""How a producer's records go: by which handle, followed or not, rescued or not."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import define
from confluent_kafka import KafkaException
from confluent_kafka.cimpl import Producer

from kafka_partition_events.clients.confluent import batches
from kafka_partition_events.clients.confluent.choosing import Chooser
from kafka_partition_events.clients.confluent.reports import OnDelivery, Reports
from kafka_partition_events.clients.confluent.rescue import Rescue, as_list
from kafka_partition_events.clients.confluent.standby import KeyOrder, Standby, after
from kafka_partition_events.clients.confluent.tracers import Handle
from kafka_partition_events.clients.confluent.unassigned import QUEUE_FULL, NotPlacedError, Record
from kafka_partition_events.clients.held import Held
from kafka_partition_events.clients.rerouting import noting_homes
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.routing.lanes import MAIN

_produce_batch = Producer.produce_batch


@define(eq=False, kw_only=True)
class Sending:
    """Sends what one producer (``own``, which it does not keep alive) has no short cut for. Thread-safe.

    Attributes:
        partitioner: Who chooses,
        chooser: and who asks it.
        reports: Takes note of delivery reports.
        tracks: Whether account is kept of deliveries.
        reroutes: Whether the partitioner may reroute keyed records.
        default_callback: The application's, for records without one.
        most_waiting: How many records may wait on all handles together.
        rescue: Sends unkeyed records again, or None.
        standbys: The other handles, by their ways.
        keys: Keeps keyed records in order on several handles; None: they keep to the first.
    """

    partitioner: Partitioner
    chooser: Chooser
    reports: Reports
    tracks: bool
    reroutes: bool
    default_callback: OnDelivery | None
    most_waiting: int
    rescue: Rescue | None = None
    standbys: Mapping[int, Standby] = MappingProxyType({})
    keys: KeyOrder | None = None

    def record(self, own: Handle, record: Record) -> None:
        """Send a record, and keep account of its delivery.

        Raises:
            NotPlacedError: nobody can tell its partition, or the handle does not know it yet, and librdkafka
                must not choose.
        """
        topic, value, key, callback, timestamp, headers = record
        if self.rescue is not None and key is None:
            theirs = callback or self.default_callback
            held = self.rescue.hold(topic, value, headers, timestamp, theirs)
            if held is not None:
                try:
                    self.held(own, held)
                except BaseException:
                    self.rescue.account.settled(held)
                    raise
                return
        if key is not None and self.reroutes:
            record = record._replace(headers=as_list(headers))
            with noting_homes(record.headers):
                partition = self.chooser.choose(topic, key, value)
        else:
            partition = self.chooser.choose(topic, key, value)
        if partition == UNASSIGNED and not self.partitioner.falls_back and self.chooser.is_keyed(key):
            raise NotPlacedError
        self._placed(own, record, partition)

    def _placed(self, own: Handle, record: Record, partition: int) -> None:
        topic, value, key, callback, timestamp, headers = record
        theirs = callback or self.default_callback
        route = self.chooser.followed(topic, partition) if self.tracks else None
        unkeyed = key is None or self.chooser.keyless
        handle, way = self._way(own, topic, partition) if unkeyed or self.keys is not None else (own, MAIN)
        leave = None
        if self.keys is not None and not unkeyed and partition != UNASSIGNED:
            way, leave = self.keys.enter(topic, partition, way)
            handle = self._handle(own, way)
            theirs = callback = after(leave, theirs)
        report = callback
        if route is not None:
            self.partitioner.deliveries.sent(topic, partition, *route.needs(partition), way)
            report = self.reports.for_record(theirs, way)
        try:
            handle.plain(topic, value, key, partition, report, None, timestamp, headers)
        except BaseException as error:
            if leave is not None:
                leave()
            if route is not None:
                self.partitioner.deliveries.withdrawn(topic, partition, way)
            if partition == UNASSIGNED or not is_unknown_partition(error):
                raise
            bound = not self.partitioner.falls_back and self.chooser.is_keyed(key)
            self.chooser.fall_back(topic, 0 if bound else 1)
            if bound:
                raise NotPlacedError from error
            own.plain(topic, value, key, UNASSIGNED, callback, None, timestamp, headers)

    def held(self, own: Handle, held: Held) -> None:
        """Send a record that may be rescued, or a copy of it."""
        topic, deliveries = held.topic, self.partitioner.deliveries
        partition = self.chooser.choose(topic, None, held.data)
        route = self.partitioner.route(topic)
        if held.attempts and route is not None and route.avoids(partition):  # a copy is no probe
            partition = self.chooser.choose(topic, None, held.data)
        if route is None or not 0 <= partition < route.count:
            self._place(held, UNASSIGNED, own, MAIN)
            return
        handle, way = self._way(own, topic, partition)
        deliveries.sent(topic, partition, *route.needs(partition), way)
        try:
            self._place(held, partition, handle, way)
        except BaseException as error:
            deliveries.withdrawn(topic, partition, way)
            if not is_unknown_partition(error):
                raise
            self.chooser.fall_back(topic)
            self._place(held, UNASSIGNED, own, MAIN)

    def _place(self, held: Held, partition: int, handle: Handle, way: int) -> None:
        assert self.rescue is not None  # noqa: S101 - it has made what is held
        headers = self.rescue.headers(held)
        report = self.rescue.placing(held, partition, way)
        try:
            handle.plain(held.topic, held.data, None, partition, report, None, held.timestamp_ms, headers)
        except BaseException:
            self.rescue.account.unplace(held, partition, way)
            raise

    def part(
        self,
        own: Handle,
        topic: str,
        part: list[batches.Message],
        partition: int,
        callback: OnDelivery | None,
    ) -> int:
        """Send the part of a batch that goes to one partition, and keep account of its first record."""
        deliveries = self.partitioner.deliveries
        followed = self.tracks and partition != UNASSIGNED
        route = self.chooser.followed(topic, partition) if followed else None
        keyed = any(message.get("key") is not None for message in part) if deliveries.on_standby else True
        handle, way = (own, MAIN) if keyed else self._way(own, topic, partition)
        if route is None:
            return _produce_batch(handle, topic, part, partition, callback)
        first = part[0]
        theirs = first.get("callback")
        report = self.reports.for_record(theirs or callback or self.default_callback, way)
        deliveries.sent(topic, partition, *route.needs(partition), way)
        taken = False
        try:
            first["callback"] = report
            sent = _produce_batch(handle, topic, part, partition, callback)
            taken = "_error" not in first
        finally:
            if not taken:
                deliveries.withdrawn(topic, partition, way)
            if theirs is None:
                del first["callback"]
            else:
                first["callback"] = theirs
        return sent

    # -- by which handle -----------------------------------------------------------------------------

    def others(self) -> list[Handle]:
        """Return the handles that are open beside the first."""
        return [handle for standby in self.standbys.values() if (handle := standby.open) is not None]

    def _handle(self, own: Handle, way: int) -> Handle:
        standby = self.standbys.get(way)
        return own if standby is None else standby.handle() or own

    def _way(self, own: Handle, topic: str, partition: int) -> tuple[Handle, int]:
        """Return by which handle a record goes that keeps no order, and the number of that way.

        Raises:
            BufferError: all handles together hold as much as one may.
        """
        way = self.partitioner.deliveries.way
        if way == MAIN or partition < 0:
            return own, MAIN
        route = self.partitioner.route(topic)
        if route is None or not route.is_safe(partition) or (handle := self._handle(own, way)) is own:
            return own, MAIN
        if Producer.__len__(own) + sum(map(len, self.others())) >= self.most_waiting:
            raise BufferError(QUEUE_FULL)
        return handle, way


def is_unknown_partition(error: BaseException) -> bool:
    """Tell whether librdkafka refuses a record because it does not know the partition."""
    return isinstance(error, KafkaException) and error.args[0].code() == batches.UNKNOWN_PARTITION
