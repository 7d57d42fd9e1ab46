"""Pins in a compacted Kafka topic: for a fleet."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name, is_of_the_group
from kafka_partition_events.clients.confluent.connection import Connection, time_left
from kafka_partition_events.clients.librdkafka import connecting, refuse_greenlets
from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.metadata.forking import keep_for_ever, reset_in_children
from kafka_partition_events.metadata.json_text import json_in
from kafka_partition_events.metadata.reconcile import UNKNOWN_TOPIC
from kafka_partition_events.partitioners.pins import READ_LIMIT_S, History, decode_history, encode_history

_CONNECT_LIMIT_S = 7.0
"""How long the first read may take, and a write."""

_READING = {
    "group.id": "kpe-pins",  # never joined, but librdkafka wants one
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,
}
_WRITING = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": int(_CONNECT_LIMIT_S * 1000),
}
_LOOK_S = 0.05
"""How often a topic that was just created is looked for."""
_REPLICAS = 3
_VERSION = 1


class KafkaPinStore:
    """Keeps pins in a topic of one partition: the name of a topic is the key, its whole history the value.

    Reading goes on from where it was to the end, so it costs next to nothing when there is nothing new. The
    first write creates the topic, with ``cleanup.policy=compact`` and up to three replicas. A topic that is
    there must have one partition and be compacted, or its records would be deleted some day.

    Compare-and-set is not exact, as Kafka has none: of two instances that write in the same moment the last
    one wins, and the other may have been told that it was. All read the same last record a moment later. As a
    cut-over comes into effect seconds after it was written, they agree by then.

    Thread-safe. In a forked child it connects anew.
    """

    def __init__(self, config: Mapping[str, Any], topic: str = "kpe.mappings") -> None:
        """Make a store; connecting happens in the background.

        Args:
            config: The settings of any librdkafka client; those that say how to connect are used.
            topic: The compacted topic.

        Raises:
            ConfigurationError: librdkafka refuses a setting, or threads are greenlets (gevent).
        """
        refuse_greenlets()
        self.topic = topic
        self._config = config
        self._connection = Connection(config)
        self._limit = _CONNECT_LIMIT_S
        self._start_afresh()
        reset_in_children(self)

    def _start_afresh(self) -> None:
        self._lock = threading.Lock()
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._position = 0
        self._latest: dict[str, bytes] = {}
        self.unreadable: Mapping[str, str] = {}

    def reset_after_fork(self) -> None:
        """Start afresh in a forked child: the parent's clients do not work there."""
        keep_for_ever(self._consumer, self._producer)
        self._start_afresh()

    def read(self) -> Mapping[str, History]:
        """Return the history of every topic; nothing is created for it.

        Raises:
            PinStoreError: the cluster does not answer, or the topic is unfit or holds something else.
        """
        with self._lock, self._explaining("can't read the pins", "Read"):
            return self._read()

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        """Write a topic's history if it still is what it was before; tell whether it is the last one now.

        Raises:
            PinStoreError: as with `read`, or the brokers do not acknowledge the record in time.
        """
        with self._lock, self._explaining("can't write the pins", "Write", "Create"):
            if self._read().get(topic) != before or topic in self.unreadable:
                return False
            if self._consumer is None:
                self._consumer = self._create()  # takes a second, in which others may write
                if self._read().get(topic) != before:
                    return False
            self._write(topic, after)
            return self._read().get(topic) == after

    def log_in(self, username: str, password: str) -> None:
        """Use other credentials from now on; what was read stays in force meanwhile."""
        with self._lock:
            self._config = {**self._config, "sasl.username": username, "sasl.password": password}
            self._connection.log_in(username, password)
            self._disconnect()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._disconnect()
            self._connection.close()

    # -- reading -------------------------------------------------------------------------------------

    def _read(self) -> dict[str, History]:
        deadline = time.monotonic() + self._limit
        if self._consumer is None:
            self._consumer = self._open(deadline)
        self._limit = READ_LIMIT_S  # from now on, for whoever waits for a cut-over
        if self._consumer is None:
            return {}
        self._read_to_end(self._consumer, deadline)
        return self._understood()

    def _understood(self) -> dict[str, History]:
        histories: dict[str, History] = {}
        unreadable: dict[str, str] = {}
        for topic, value in self._latest.items():
            try:
                histories[topic] = _decode(json_in(value))
            except ValueError as error:
                unreadable[topic] = (
                    f"topic {self.topic} holds no pins of {topic!r:.260} that can be read here: {error}. "
                    "Another record with that key replaces them; one without a value removes them"
                )
        self.unreadable = unreadable
        return histories

    def _open(self, deadline: float) -> Consumer | None:
        """Return a consumer for the topic; None when there is no topic."""
        admin = self._connection.admin()
        found = admin.list_topics(self.topic, timeout=time_left(deadline)).topics[self.topic]
        self._connection.succeeded()
        if found.error is not None:
            if error_name(found.error) == UNKNOWN_TOPIC:
                return None
            raise KafkaException(found.error)
        self._check(len(found.partitions), deadline)
        self._position, self._latest = 0, {}
        return Consumer({**self._connecting(), **_READING})

    def _check(self, partitions: int, deadline: float) -> None:
        if partitions != 1:
            raise PinStoreError(f"topic {self.topic} has {partitions} partitions; pins need a topic with one")
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        answer = self._connection.admin().describe_configs([resource], request_timeout=time_left(deadline))
        with contextlib.suppress(KafkaException):  # who may not see the policy has to trust it
            policy = answer[resource].result(time_left(deadline))["cleanup.policy"].value
            if policy != "compact":
                raise PinStoreError(
                    f"topic {self.topic} has cleanup.policy={policy}, which deletes pins that are in force; "
                    "set it to compact"
                )

    def _read_to_end(self, consumer: Consumer, deadline: float) -> None:
        low, high = self._ends(consumer, deadline)
        if high < self._position:  # the topic was created anew
            self._position, self._latest = 0, {}
        if self._position >= high:
            return
        self._position = max(self._position, low)
        consumer.assign([TopicPartition(self.topic, 0, self._position)])
        while self._position < high:
            message = consumer.poll(time_left(deadline))
            if message is None:
                raise TimeoutError("it was not read to the end in time")
            if (error := message.error()) is None:
                self._take(message)
            elif not is_of_the_group(error):
                raise KafkaException(error)
        # Else it would wait at the broker for more, and the next look at the end would wait behind that.
        # (A pause does not do: librdkafka takes a second to resume.)
        consumer.unassign()

    def _ends(self, consumer: Consumer, deadline: float) -> tuple[int, int]:
        """Return the offset of the first record, and the one after the last."""
        place = TopicPartition(self.topic, 0)
        while True:
            try:
                return consumer.get_watermark_offsets(place, timeout=time_left(deadline))
            except KafkaException as error:
                # Brokers hear of a new topic one after another; this one may not have, yet.
                unheard = error_name(error.args[0]) in {UNKNOWN_TOPIC, "_UNKNOWN_PARTITION"}
                if not unheard or time.monotonic() >= deadline:
                    raise
            time.sleep(_LOOK_S)

    def _take(self, message: Message) -> None:
        topic, value = (message.key() or b"").decode(errors="replace"), message.value()
        if value is None:
            self._latest.pop(topic, None)
        else:
            self._latest[topic] = value
        offset = message.offset()
        assert offset is not None  # noqa: S101 - a record that was read has one
        self._position = offset + 1

    # -- writing -------------------------------------------------------------------------------------

    def _create(self) -> Consumer:
        """Create the topic, unless somebody else just has, and return a consumer for it."""
        admin = self._connection.admin()
        brokers = len(admin.list_topics(timeout=_CONNECT_LIMIT_S).brokers)
        topic = NewTopic(
            self.topic,
            num_partitions=1,
            replication_factor=min(_REPLICAS, brokers),
            config={"cleanup.policy": "compact"},
        )
        try:
            created = admin.create_topics([topic], request_timeout=_CONNECT_LIMIT_S)[self.topic]
            created.result(_CONNECT_LIMIT_S)
        except KafkaException as error:
            if error_name(error.args[0]) != "TOPIC_ALREADY_EXISTS":  # another instance was first
                raise
        deadline = time.monotonic() + _CONNECT_LIMIT_S
        while (consumer := self._open(deadline)) is None:
            if time.monotonic() >= deadline:
                raise TimeoutError("the brokers do not tell of the topic that was created")
            time.sleep(_LOOK_S)
        return consumer

    def _write(self, topic: str, history: History) -> None:
        producer = self._producer = self._producer or Producer({**self._connecting(), **_WRITING})
        value = json.dumps({"version": _VERSION, "pins": encode_history(history)}).encode()
        outcome: list[Any] = []
        producer.produce(
            self.topic, value, topic, 0, on_delivery=lambda error, _message: outcome.append(error)
        )
        producer.flush(_CONNECT_LIMIT_S + 1.0)
        if not outcome:
            raise TimeoutError(f"not acknowledged within {_CONNECT_LIMIT_S:g} s")
        if outcome[0] is not None:
            raise KafkaException(outcome[0])

    # -- trouble -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _explaining(self, what: str, *operations: str) -> Iterator[None]:
        """Raise what goes wrong as `PinStoreError`, and connect anew the next time."""
        try:
            yield
        except (KafkaException, TimeoutError) as error:
            self._disconnect()
            needed = Right(operations, "topic", self.topic)
            failure = self._connection.failure(f"topic {self.topic}: {what}", error, needed)
            raise PinStoreError(str(failure)) from error

    def _connecting(self) -> dict[str, Any]:
        return {"log_level": 2, **connecting(self._config)}

    def _disconnect(self) -> None:
        consumer, self._consumer, self._producer = self._consumer, None, None
        if consumer is not None:
            consumer.close()


def _decode(document: object) -> History:
    match document:
        case {"version": int(version), "pins": pins} if version == _VERSION:
            return decode_history(pins)
    raise ValueError(f"not a document of version {_VERSION} with pins")
