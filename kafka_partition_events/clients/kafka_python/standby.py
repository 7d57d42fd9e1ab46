"""Other ``KafkaProducer``s beside one that runs; see ``clients/standby.py`` for what it is good for.

The application's producer goes on to serialize and to choose partitions. Only what it appends to its buffer
is diverted: that gives futures of kafka-python's own, which tell what the application expects. Making a
producer waits for the cluster, so a thread of ours does it, and closes it again; until it is there records
take the first way, and copies of stuck ones wait.

Beside public names this relies on ``KafkaProducer._accumulator`` and its ``append``, on ``_sender`` with
``add_topic`` and ``wakeup``, and on ``_metadata`` and its ``_manager``.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaProducer

from kafka_partition_events.clients.kafka_python.exchange import ask
from kafka_partition_events.clients.kafka_python.idempotence import keep_sending
from kafka_partition_events.clients.standby import IDLE_S, StandbyMode, healthy
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner
from kafka_partition_events.routing.lanes import MAIN, STANDBY

_RETRY_S = 5.0
"""How long to wait after a second producer could not be made."""

_FIRST_LIMIT_S = 0.4
_LONGEST_LIMIT_S = 4.0
"""How long to wait for an answer at first, and at last, before it is given up for now."""

_OF_ITS_OWN: Mapping[str, Any] = {
    "key_serializer": None,
    "value_serializer": None,
    "metric_reporters": [],
    "metrics_enabled": False,
}
"""Settings that are not the first producer's; its metrics are of the first way only."""

_log = get_logger(__name__)


class Latest(threading.local):
    """What is known of the record that this thread is sending, or has sent last."""

    free = False
    """Whether it may take any way: the application has not given its partition."""
    way = MAIN


class Standby:
    """One more way of one producer, to which it holds no reference. Thread-safe."""

    def __init__(
        self,
        number: int,
        mode: StandbyMode,
        config: Mapping[str, Any],
        partitioner: Partitioner,
        poller: MetadataPoller,
    ) -> None:
        """Prepare a way, with the first producer's own settings; the mode is not ``"off"``."""
        self._number = number
        theirs = {name: config[name] for name in KafkaProducer.DEFAULT_CONFIG if name != "partitioner"}
        self._config = {**theirs, "client_id": f"{config['client_id']}-standby-{number}", **_OF_ITS_OWN}
        self._partitioner = partitioner
        self._deliveries = partitioner.deliveries
        self._poller = poller
        self._keep = mode == "warm"
        # Re-entrant: the garbage collector may run in here and close a producer.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._topics: Callable[[], set[str]] = set  # those that the first producer knows
        self._second: Any = None  # as long as something may be on its way there
        self._takes = False  # whether it takes records
        self._making = False
        self._used_at = 0.0
        self._ended = False

    def begin(self, topics: Callable[[], set[str]]) -> None:
        """Be there for a producer that knows these topics."""
        self._topics = topics
        if self._keep:
            self._start()

    def is_coming(self) -> bool:
        """Tell whether records are to take this way, but have to wait for it to be made."""
        if self._takes or self._deliveries.way != self._number:
            return False
        self._start()
        return self._making

    def append(self, latest: Latest, tp: Any, timestamp_ms: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
        """Hand a record to this way's producer; None: it is not to go there, or can't yet."""
        if not (key is None and latest.free and self._deliveries.way == self._number):
            return None
        route = self._partitioner.route(tp.topic)
        if route is None or not route.is_safe(tp.partition):
            return None
        with self._changed:
            if not self._takes:
                self._start()
                return None
            second, self._used_at = self._second, time.monotonic()
            if tp.partition not in (second._metadata.partitions_for_topic(tp.topic) or ()):  # noqa: SLF001
                second._sender.add_topic(tp.topic)  # noqa: SLF001
                return None
            result = second._accumulator.append(tp, timestamp_ms, None, *args, **kwargs)  # noqa: SLF001
        _, is_full, is_new, moves_on = result
        if not moves_on:  # kafka-python asks for another partition first
            latest.way = self._number
        if is_full or is_new:
            second._sender.wakeup()  # noqa: SLF001
        return result

    # -- the second producer -------------------------------------------------------------------------

    def _start(self) -> None:
        with self._changed:
            if self._thread is None and not self._ended:
                self._making = True
                self._thread = threading.Thread(target=self._run, name="kpe-standby", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Make the second producer, and close it when nothing has needed it for a minute."""
        try:
            second = self._made()
        except Exception as error:  # noqa: BLE001 - of the network, or of whoever logs in
            _log.warning("kafka_python_standby_not_made", error=repr(error))
            with self._changed:
                self._making = False
                self._changed.wait_for(lambda: self._ended, _RETRY_S)
                self._thread = None
            return
        with self._changed:
            self._making, self._takes = False, not self._ended
            self._second, self._used_at = second, time.monotonic()
            while not self._ended and (left := self._used_at + IDLE_S - time.monotonic()) > 0:
                self._changed.wait(None if self._keep else left)
            self._takes = False
        second.close()  # sends what it has
        with self._changed:
            self._second = self._thread = None

    def _made(self) -> KafkaProducer:
        first = healthy(self._poller.cluster, self._deliveries.suspects())
        second = KafkaProducer(**{**self._config, **({"bootstrap_servers": first} if first else {})})
        keep_sending(second)
        if topics := frozenset(self._topics()):
            second._metadata.set_topics(topics)  # noqa: SLF001
            try:
                self._teach(second, topics)
            except MetadataFetchError:
                second.close(timeout=0)
                raise
        return second

    def _teach(self, second: KafkaProducer, topics: frozenset[str]) -> None:
        """Ask for the topics, one broker after the other; kafka-python itself may wait for one that hangs."""
        limit, metadata = _FIRST_LIMIT_S, second._metadata  # noqa: SLF001
        manager, learn = metadata._manager, metadata.update_metadata  # noqa: SLF001
        while True:
            try:
                ask(manager, topics, limit, exclusive=False, complaints={}, take=lambda said, _: learn(said))
            except MetadataFetchError:
                limit *= 2
                if limit > _LONGEST_LIMIT_S or self._ended:
                    raise
            else:
                return

    def flush(self, timeout: float | None) -> float | None:
        """Flush the second producer; return what is left of the time."""
        began = time.monotonic()
        if (second := self._second) is not None:
            second.flush(timeout)
        return timeout and max(0.0, began + timeout - time.monotonic())

    def end(self) -> bool:
        """Take no records any more; return whether there is, or is about to be, a second producer."""
        with self._changed:
            self._ended, self._takes = True, False
            self._changed.notify_all()
            return self._thread is not None

    def close(self, timeout: float | None) -> None:
        """Close the second producer for good; whoever does so has flushed it. Idempotent."""
        self.end()
        if (second := self._second) is not None:
            second.close(timeout)


def other_ways(
    mode: StandbyMode, config: Mapping[str, Any], partitioner: Partitioner, poller: MetadataPoller
) -> tuple[Standby, ...]:
    """Return a producer's second way, and the third for when that one is blocked; none if it is ``"off"``."""
    if mode == "off":
        return ()
    modes: tuple[StandbyMode, ...] = mode, "lazy"
    partitioner.deliveries.has_standby(len(modes))
    return tuple(Standby(way, each, config, partitioner, poller) for way, each in enumerate(modes, STANDBY))
