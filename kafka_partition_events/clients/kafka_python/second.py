"""A second ``KafkaProducer`` beside the application's own; see ``clients/flight/detour.py``."""

# ruff: noqa: SLF001 - see `private`

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import IllegalStateError, KafkaTimeoutError

from kafka_partition_events.clients.flight.client import HandleClosedError
from kafka_partition_events.clients.flight.detour import Detour, healthy
from kafka_partition_events.clients.flight.record import Record
from kafka_partition_events.clients.kafka_python.idempotence import keep_sending
from kafka_partition_events.clients.kafka_python.private import ask_healthy, pause_while_connecting
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.partitioners.base import Partitioner

_OF_ITS_OWN: Final[Mapping[str, Any]] = {
    "key_serializer": None,
    "value_serializer": None,
    "metric_reporters": [],
    "metrics_enabled": False,
    "allow_auto_create_topics": False,
    "max_block_ms": 1,  # it is asked for topics on the way of records, and must not hold one up
}
"""Settings that are not the first producer's; its metrics are of the first one only."""

_LEARN_S: Final = (0.5, 1.0, 2.0)
"""How long a new one may take until it can send; where a broker hangs, the next one asks another."""
_LEARN_STEP_S: Final = 0.005
_ASK_EVERY_S: Final = 0.05  # between two questions for a topic on the way of records


class Second:
    """A further producer, the topics that it knows, and the records that it has (its length)."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.producer = KafkaProducer(**config)
        keep_sending(self.producer)
        self._known: set[str] = set()
        self._ask_at: dict[str, float] = {}
        self._open: set[Any] = set()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def can_send(self) -> bool:
        """Whether it is not idempotent, or has its producer id: the broker that it asks for that may hang."""
        manager = self.producer._transaction_manager
        return manager is None or manager.has_producer_id()

    def knows(self, topic: str) -> bool:
        """Return whether a topic can be written without waiting; if not, it is learned meanwhile."""
        if topic in self._known:
            return True
        if (now := time.monotonic()) < self._ask_at.get(topic, 0.0):
            return False
        self._ask_at[topic] = now + _ASK_EVERY_S
        return self.learn(topic)

    def learn(self, topic: str) -> bool:
        """Ask for a topic, for a millisecond; return whether it is known."""
        with suppress(Exception):  # it is not known by now, or is refused: the first producer says so
            self.producer.partitions_for(topic)
            self._known.add(topic)
        return topic in self._known

    def send(self, record: Record, partition: int) -> Any:
        """Send a serialized record; return its future. May raise `HandleClosedError`."""
        try:
            future = self.producer.send(
                record.topic,
                value=record.value,
                key=record.key,
                headers=record.headers,
                partition=partition,
                timestamp_ms=record.timestamp_ms,
            )
        except (IllegalStateError, KafkaTimeoutError) as error:  # closed, or it knows the topic no more
            self._known.discard(record.topic)
            raise HandleClosedError from error
        self._open.add(future)
        future.add_both(lambda _outcome: self._open.discard(future))
        return future


def detour(
    config: Mapping[str, Any],
    partitioner: Partitioner,
    poller: MetadataPoller,
    topics: Callable[[], set[str]],
    owner: Callable[[], object],
) -> Detour[Second]:
    """Prepare a second producer, with the first one's settings and topics; none is made yet."""
    theirs = {name: config[name] for name in KafkaProducer.DEFAULT_CONFIG if name != "partitioner"}
    client, suspects = config["kafka_client"], partitioner.deliveries.suspects

    def client_of_ours(**settings: Any) -> Any:
        return pause_while_connecting(ask_healthy(client(**settings), suspects))

    own = {"kafka_client": client_of_ours, **_OF_ITS_OWN}
    fixed = {**theirs, "client_id": f"{config['client_id']}-standby-1", **own}

    def make() -> Second:
        wanted = topics()
        for seconds in _LEARN_S:
            servers = healthy(poller.cluster, suspects())
            second = Second({**fixed, **({"bootstrap_servers": servers} if servers else {})})
            until = time.monotonic() + seconds
            while True:
                missing = [topic for topic in wanted if not second.learn(topic)]
                if (second.can_send and not missing) or time.monotonic() >= until:
                    break
                time.sleep(_LEARN_STEP_S)
            if second.can_send and len(missing) < max(1, len(wanted)):  # one that is refused is no reason
                return second
            second.producer.close(0)
        raise KafkaTimeoutError(f"no broker gave it within {_LEARN_S[-1]} s what it needs to send")

    return Detour(make, lambda second: second.producer.close(), owner)
