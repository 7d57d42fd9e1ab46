"""What the observers of a cluster share: a compacted topic, which each of them keeps a copy of.

Operators write silences and decisions about incidents, the leader what it has told as open. Each observer
reads all of it, so that what was said to one is known to whoever leads next. Silences and decisions become
small states of the outbox, under the same names, and hold while the topic can't be read; what is in the
outbox only, such as a window of the configuration, is that observer's own. What is open is kept in memory:
nobody asks for it but who takes over, and then what the topic says by then.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_text, is_of_the_group
from kafka_partition_events.clients.confluent.connection import Login
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.incidents.decisions import DECISIONS
from kafka_partition_events.incidents.handover import OPEN
from kafka_partition_events.incidents.said import LARGEST_BYTES
from kafka_partition_events.incidents.silences import PREFIX
from kafka_partition_events.log import get_logger
from kafka_partition_events.outbox import Journal, Write

REQUEST_S: Final = 5.0
MOST: Final = 10_000
"""Of more values no copy is kept: whoever may write to the topic must not fill the outbox."""

_SAID: Final = (PREFIX, DECISIONS)
_SHARED: Final = (*_SAID, OPEN)
_COPIED: Final = "shared"
"""The small state that holds the names of all that is a copy."""
_REPLICAS: Final = 3
_LOOK_S: Final = 0.5
_AGAIN_S: Final = 5.0
_POLL_S: Final = 0.05
_ASK_S: Final = 10.0

_log = get_logger(__name__)


def ensure_topic(config: Mapping[str, Any], topic: str, *, compacted: bool = False) -> None:
    """Create a topic of one partition if there is none.

    Raises:
        ConfigurationError: it has several partitions.
        KafkaException, TimeoutError: nobody answers, or it must not be created.
    """
    admin = AdminClient({"log_level": 2, **connecting(config)})
    listed = admin.list_topics(timeout=REQUEST_S)
    found = listed.topics.get(topic)
    if found is None:
        replicas = min(_REPLICAS, len(listed.brokers))
        policy = {"cleanup.policy": "compact"} if compacted else {}
        wanted = NewTopic(topic, num_partitions=1, replication_factor=replicas, config=policy)
        try:
            admin.create_topics([wanted], request_timeout=REQUEST_S)[topic].result(REQUEST_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # the other observer was quicker
                raise
    elif len(found.partitions) > 1:
        raise ConfigurationError(
            f"topic {topic} has {len(found.partitions)} partitions, and must have one: delete it, or set "
            "another one in [election]"
        )


def share(config: Mapping[str, Any], topic: str, values: Mapping[str, bytes | None]) -> None:
    """Write values for all observers; None removes one. Returns when Kafka has them.

    Raises:
        KafkaException, TimeoutError: it has not taken all of them within ten seconds.
    """
    ensure_topic(config, topic, compacted=True)
    failed: list[KafkaError] = []
    limit_ms = int(2 * REQUEST_S * 1000)
    producer = Producer({"log_level": 2, **connecting(config), "acks": "all", "message.timeout.ms": limit_ms})
    for key, value in values.items():
        producer.produce(
            topic,
            value,
            key,
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    if producer.flush(2 * REQUEST_S + 1.0):
        raise TimeoutError(f"nobody takes records of topic {topic}")
    if failed:
        raise KafkaException(failed[0])


class Shared:
    """Keeps the copy, on a thread of its own; and, in a leader, keeps the topic equal to what it has told.

    What a former leader writes late, the leader corrects within a second.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        outbox: Journal,
        *,
        told_open: Callable[[], Mapping[str, bytes] | None],
    ) -> None:
        """Make it; nothing is asked before `start`.

        Args:
            config: librdkafka's settings; those that say how to connect are used.
            topic: The topic; it is created if need be.
            outbox: Where the copy is.
            told_open: Returns what this observer has told as open, as the leader; None if it does not lead.
        """
        self._config, self._topic, self._outbox, self._told_open = config, topic, outbox, told_open
        self._copy: dict[str, bytes] | None = None  # as the topic has it; None while that is not known
        self._answered = True
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None  # none before it runs

    @property
    def alive(self) -> bool:
        """Whether its thread runs, or is not to."""
        return self._thread is None or self._stopping.is_set() or self._thread.is_alive()

    def opened(self) -> Mapping[str, bytes] | None:
        """Return what the topic has as open, by name; None while it is not read to its end."""
        copy = self._copy
        return None if copy is None else _claims(copy)

    @property
    def up(self) -> bool:
        """Whether the copy is complete, and the topic has a leader that could tell of more."""
        return self._copy is not None and self._answered

    def wait_complete(self, timeout: float) -> bool:
        """Wait until the topic is read to its end, at most so many seconds; tell whether it is."""
        deadline = time.monotonic() + timeout
        while self._copy is None and time.monotonic() < deadline:
            if self._stopping.wait(_POLL_S):
                break
        return self._copy is not None

    def start(self) -> None:
        """Begin to read."""
        thread = threading.Thread(target=self._run, name="kpe-shared", daemon=True)
        thread.start()
        self._thread = thread

    def close(self, timeout: float = 15.0) -> None:
        """Stop. Idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout)

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                ensure_topic(self._config, self._topic, compacted=True)
                self._follow()
            except Exception as error:  # noqa: BLE001 - whatever it is, it must go on when that is over
                _log.error("shared_topic_failed", topic=self._topic, error=self._text(error))
                self._stopping.wait(_AGAIN_S)

    def _follow(self) -> None:
        login = Login(self._config)
        consumer = Consumer(
            {
                "log_level": 2,
                **connecting(self._config),
                "group.id": "kpe-unused",  # required; nothing is joined, nothing committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "error_cb": login.note,
            }
        )
        try:
            consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            copy: dict[str, bytes] = {}
            at_end, ask_at = False, 0.0
            while not self._stopping.is_set():
                read, is_end = self._read(consumer, copy)
                copy = _changed(copy, read)
                at_end = at_end or is_end
                if at_end:
                    self._keep(copy)
                    self._copy = copy
                    copy = self._copy = _changed(copy, self._corrected(copy))
                if time.monotonic() >= ask_at:
                    self._answered = self._answers(consumer, login)
                    ask_at = time.monotonic() + _ASK_S
                if not self._answered:
                    login.check()
        finally:
            self._copy = None
            consumer.close()

    def _answers(self, consumer: Consumer, login: Login) -> bool:
        """Return whether the topic's leader does: that it is gone a consumer is not told."""
        try:
            consumer.get_watermark_offsets(TopicPartition(self._topic, 0), REQUEST_S, cached=False)
        except KafkaException as error:
            told = self._text(error) if login.refusal is None else login.refusal.str()
            _log.warning("shared_topic_silent", topic=self._topic, error=told)
            return False
        return True

    def _read(self, consumer: Consumer, copy: Mapping[str, bytes]) -> tuple[dict[str, bytes | None], bool]:
        """Return what has been written since, and whether that is all there is."""
        read: dict[str, bytes | None] = {}
        at_end = False
        for message in consumer.consume(500, _LOOK_S):
            error = message.error()
            if error is None:
                self._understand(message.key(), message.value(), copy, read)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its documented name
                at_end = True
            elif not is_of_the_group(error):
                raise KafkaException(error)
        return read, at_end

    def _understand(
        self, key: Any, value: Any, copy: Mapping[str, bytes], read: dict[str, bytes | None]
    ) -> None:
        name = (key or b"").decode(errors="replace")
        too_many = name not in copy and len(copy) + len(read) >= MOST
        if not name.startswith(_SHARED) or len(name) > 600 or len(value or b"") > LARGEST_BYTES or too_many:
            _log.warning("shared_value_passed_over", topic=self._topic, name=name[:100])
        else:
            read[name] = value or None

    def _text(self, error: Exception) -> str:
        if isinstance(error, KafkaException):
            needed = Right(("Read", "Write", "Create"), "topic", self._topic)
            return error_text(error.args[0], self._config, needed)
        return str(error) if isinstance(error, OutboxError) else repr(error)

    def _keep(self, copy: Mapping[str, bytes]) -> None:
        """Make the outbox's copy what the topic has; what was never a copy stays."""
        said = {key: value for key, value in copy.items() if key.startswith(_SAID)}
        stored = {key: value for prefix in _SAID for key, value in self._outbox.values(prefix).items()}
        before = json.loads(self._outbox.values(_COPIED).get(_COPIED, b"[]"))
        gone = {key: None for key in before if key not in said}
        new = {key: value for key, value in said.items() if stored.get(key) != value}
        if gone or new or before != sorted(said):
            names = json.dumps(sorted(said)).encode()
            self._outbox.write(Write(values={**gone, **new, _COPIED: names}))

    def _corrected(self, copy: Mapping[str, bytes]) -> Mapping[str, bytes | None]:
        """If this is the leader, make the topic have as open what was told so; return what was changed."""
        told = self._told_open()
        if told is None:
            return {}
        known = _claims(copy)
        wrong: dict[str, bytes | None] = {key: None for key in known if key not in told}
        wrong.update((key, value) for key, value in told.items() if known.get(key) != value)
        if wrong:
            share(self._config, self._topic, wrong)
        return wrong


def _claims(copy: Mapping[str, bytes]) -> dict[str, bytes]:
    return {key: value for key, value in copy.items() if key.startswith(OPEN)}


def _changed(copy: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    return {key: value for key, value in {**copy, **changes}.items() if value}
