"""One time of being the tracker: from fencing all others to being fenced, or leaving."""

import contextlib
import math
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from attrs import evolve, field, frozen
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.clients.rights import lacking
from kafka_partition_events.control.changes.controller import ClusterSnapshotForControl, Controller, Decision
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.prober import GroupProber
from kafka_partition_events.control.operate.control_log import ControlLog
from kafka_partition_events.control.protocol.codec import Record, Skipped, encode, key_of
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Change, Given, Lease
from kafka_partition_events.control.protocol.topics import tracker_name
from kafka_partition_events.control.tracker.election import SESSION_S
from kafka_partition_events.control.tracker.topic_growth import Grower
from kafka_partition_events.errors import ControlTopicError
from kafka_partition_events.metadata.cluster import Cluster

LEASE_S: Final = 30.0
"""Seconds between two leases of the tracker: they show that it lives, and their answers give it the time."""

_LIMIT_S: Final = 30.0
_READ_S: Final = 10.0
_READ_ALL_S: Final = 120.0
_PROOF_LASTS_S: Final = SESSION_S / 2
_STEP_MS: Final = 60_000
"""By more than this no answer is late, and no clock drifts between two: the clock was set."""
_WRITING: Final = {
    "linger.ms": 0,
    "transaction.timeout.ms": 30_000,
    "partitioner": "murmur2_random",  # as instances do, so that a key stays on its partition
}
_TOPICS: Final[Mapping[type[Record], str]] = {Change: "changes", Lease: "leases"}


@frozen(kw_only=True)
class TrackerConfig:
    """Where a tracker works.

    Attributes:
        config: librdkafka's settings for the cluster.
        prefix: What the names of the control topics begin with.
        policy: What is allowed.
        skipped: Counts records that are not understood.
    """

    config: Mapping[str, Any] = field(repr=False)
    prefix: str
    policy: Policy
    skipped: Skipped = field(factory=Skipped)

    @property
    def name(self) -> str:
        """The tracker's group, its transactional id, and the id of its leases."""
        return tracker_name(self.prefix)


class Leadership:
    """The work of an elected tracker. One thread at a time.

    Whatever it raises ends it: what it knows may differ from what was written then. `close` it, and let
    another one read everything from the start.
    """

    def __init__(self, settings: TrackerConfig) -> None:
        """Fence all other trackers, then read everything to its end; in this order nothing can be missed.

        Raises:
            KafkaException, TimeoutError: a later tracker has fenced this one, or no broker answers.
            ControlTopicError: the control topics can't be read.
            ConfigurationError: librdkafka refuses a settings.
        """
        self._settings, config = settings, settings.config
        self.cluster_id: str | None = None
        """Kafka's id of the cluster."""
        self._clocks: dict[int, float] = {}
        """How far each leader's clock is ahead of the monotonic one, at least, in milliseconds."""
        self._now_ms = 0
        self._set_back = False
        self._lease = Lease(instance_id=settings.name, incarnation=uuid.uuid4().hex, lease_seq=0)
        self._lease_due = 0.0
        self._proven_at = -math.inf
        self._producer = Producer(
            {"log_level": 2, **connecting(config), **_WRITING, "transactional.id": settings.name}
        )
        with contextlib.ExitStack() as parts:
            parts.callback(_destroy, self._producer)
            self._log = parts.enter_context(contextlib.closing(ControlLog(config, settings.prefix)))
            self._log.skipped = settings.skipped
            with self._naming():
                self._producer.init_transactions(_LIMIT_S)
            self._write([self._next_lease()])  # the first answer shows the brokers' time
            self._log.read(_READ_ALL_S)
            self._controller = Controller(self._log.ledger, self._log.ledger.next_epoch(), settings.policy)
            self._grower = parts.enter_context(contextlib.closing(Grower(config, settings.policy)))
            self._prober = parts.enter_context(contextlib.closing(GroupProber(GroupAdmin(config))))
            # Without a probe, all groups would pass for unknown.
            self._prober.watch(self._controller.open_changes, self.now_ms)
            self._parts = parts.pop_all()

    @property
    def epoch(self) -> int:
        """Its epoch."""
        return self._controller.epoch

    @property
    def ledger(self) -> Ledger:
        """What is known."""
        return self._log.ledger

    @property
    def now_ms(self) -> int:
        """The brokers' time now, in milliseconds since 1970; it never goes back.

        A broker stamps a record before we hear of it, so the most that an answer has shown is closest to the
        truth. The slowest clock counts: where clocks differ, who has signed by any of them passes for alive
        for longer, and no gate opens too early.

        Raises:
            ControlTopicError: no broker has reported it, or a clock was set back.
        """
        if self._set_back:
            raise ControlTopicError("the clock of a broker was set back")
        if not self._clocks:
            raise ControlTopicError("the broker does not report when it has appended a record")
        now_ms = int(min(self._clocks.values()) + 1_000 * time.monotonic())
        self._now_ms = max(self._now_ms, now_ms)
        return self._now_ms

    def round(self, commands: Sequence[Given]) -> Decision:
        """Carry out commands, and let all open changes take their next steps; in one transaction.

        Raises:
            KafkaException, TimeoutError: it was not written, or that is not known.
            ControlTopicError: the control topics can't be read.
        """
        self._log.read(_READ_S)
        now_ms = self.now_ms
        decision = self._controller.decide(commands, self._seen(commands), now_ms)
        records: list[Record] = [*decision.changes]
        # Before partitions are created, a record of its own proves that this is the tracker still.
        if decision.due or time.monotonic() >= self._lease_due:
            records.append(self._next_lease())
        if records or decision.retired:
            self._write(records, decision.retired)
            self._proven_at = time.monotonic()
        self._controller.wrote(decision)
        if decision.due:
            self._grower.grow(decision.due, self._is_proven)
        self._prober.watch(self._controller.open_changes, now_ms)
        return decision

    def close(self) -> None:
        """Give up a transaction that is open, and close all connections."""
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(_READ_S)
        self._parts.close()

    def _is_proven(self) -> bool:
        # Who was frozen since then may have been replaced, and what is due may have been cancelled.
        return not self._set_back and time.monotonic() < self._proven_at + _PROOF_LASTS_S

    def _seen(self, commands: Iterable[Given]) -> ClusterSnapshotForControl:
        """Describe the topics in question: each round decides by what is there now."""
        specs = [change.spec for change in self._controller.open_changes]
        specs += [given.command.spec for given in commands if given.command.spec is not None]
        found = self._grower.describe({spec.topic for spec in specs})
        return ClusterSnapshotForControl(
            cluster=None if found is None else Cluster(by_topic=found.values(), cluster_id=self.cluster_id),
            probe=self._prober.probe,
            refused=self._grower.refused,
            growing=self._grower.growing,
            troubles=self._grower.troubles,
        )

    def _next_lease(self) -> Lease:
        self._lease_due = time.monotonic() + LEASE_S
        self._lease = evolve(self._lease, lease_seq=self._lease.lease_seq + 1)
        return self._lease

    @contextlib.contextmanager
    def _naming(self, topics: Iterable[str] = ()) -> Iterator[None]:
        """Raise that a right is lacking as an error that names it."""
        settings = self._settings
        needed = [Right(("Write",), "topic", f"{settings.prefix}{topic}") for topic in sorted(topics)]
        try:
            yield
        except KafkaException as error:
            own = Right(("Write",), "transactional-id", settings.name)
            refused = lacking(error_name(error.args[0]), [own, *needed], settings.config)
            if refused is None:
                raise
            raise ControlTopicError(refused) from error

    def _write(self, records: Sequence[Record], retired: Sequence[Change] = ()) -> None:
        """Write in one transaction, and wait until it is committed."""
        with self._naming({_TOPICS[type(record)] for record in (*records, *retired)}):
            self._write_all(records, retired)

    def _write_all(self, records: Sequence[Record], retired: Sequence[Change]) -> None:
        producer, prefix = self._producer, self._settings.prefix
        producer.begin_transaction()
        for record in records:
            topic, key, value = f"{prefix}{_TOPICS[type(record)]}", key_of(record), encode(record)
            if not isinstance(record, Lease):
                producer.produce(topic, value, key)
                continue
            # The tracker's own leases go to every partition, so that each leader shows its time.
            listed = producer.list_topics(topic, _LIMIT_S)
            self.cluster_id = listed.cluster_id
            for partition, found in listed.topics[topic].partitions.items():
                heard = partial(self._heard, found.leader)
                producer.produce(topic, value, key, partition, on_delivery=heard)
        for change in retired:
            producer.produce(f"{prefix}changes", None, key_of(change))
        producer.commit_transaction(_LIMIT_S)

    def _heard(self, leader: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            appended_ms = message.timestamp()[1]
            ahead_ms = appended_ms - 1_000 * time.monotonic()
            known_ms = self._clocks.setdefault(leader, ahead_ms)
            # All clocks were an hour fast, and are set back: by our time who signs now was lost an hour ago,
            # and what waits for producers would be due. So this term ends; the next one has their time.
            self._set_back |= ahead_ms < known_ms - _STEP_MS
            # One was an hour slow, and is set right: would we follow, all deadlines passed at once, and who
            # signed by it before was lost. So we stay behind, for this term.
            if ahead_ms <= known_ms + _STEP_MS:
                self._clocks[leader] = max(ahead_ms, known_ms)
            if self._lease.born_ms is None:
                self._lease = evolve(self._lease, born_ms=appended_ms)


def _destroy(producer: Producer) -> None:
    """End a producer here and now, whatever still waits in it.

    What it raised holds it, and so would the connections and threads of each term of office stay until the
    garbage collection, which may be hours.
    """
    with warnings.catch_warnings():  # of a transaction that can't be aborted: the next tracker fences it
        warnings.simplefilter("ignore", RuntimeWarning)
        for end in (producer.purge, producer.close):
            with contextlib.suppress(KafkaException):  # of one that was refused: it would hide why
                end()
