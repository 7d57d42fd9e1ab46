"""How many producers brokers know to be writing: DescribeProducers (KIP-664), through kafka-python.

confluent-kafka does not offer it. Where kafka-python is not installed, or can't connect as the settings say,
writers are unknown, and nothing else.
"""

import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import TopicPartition

WRITING_S: Final = 300.0
"""How recent a producer's last record must be. Brokers remember a producer for a day after it, and each
restart makes a new one."""

_TIMEOUT_MS: Final = 3_000
_AGAIN_S: Final = 60.0

_log = get_logger(__name__)


class Writers:
    """Asks for the producers of partitions. Blocks for I/O; one thread at a time."""

    def __init__(self, config: Mapping[str, Any], *, clock: Clock | None = None) -> None:
        """Make it; it connects when it is asked.

        Args:
            config: librdkafka's settings; those that say how to connect are translated.
            clock: For tests.
        """
        self._config = config
        self._clock = clock or SystemClock()
        self._admin: Any = None
        self._not_before = -math.inf
        self._warned = False

    def count(self, partitions: Iterable[TopicPartition], now_ms: int) -> int | None:
        """Return how many producers have written to any of the partitions within `WRITING_S` seconds.

        A lower bound: brokers know idempotent producers only. When a record was written is told by the
        producer's clock, unless the topic has the broker's time.

        Args:
            partitions: Those with a leader.
            now_ms: The time now, in milliseconds since 1970.

        Returns:
            None if it can't be told: the client is missing, or a broker refuses or does not answer.
        """
        if self._clock.monotonic() < self._not_before:
            return None
        try:
            found = self._ask(partitions)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong there, the answer is "not known"
            self._not_before = self._clock.monotonic() + _AGAIN_S
            if not self._warned:
                _log.warning("writers_not_known", error=repr(error))
            self._warned = True
            return None
        self._warned = False
        after = now_ms - 1_000 * WRITING_S
        return len({one.producer_id for one in found if one.last_timestamp >= after})

    def _ask(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        from kafka import TopicPartition as KafkaPartition  # noqa: PLC0415 - may be missing

        answer = self._connected().describe_producers([KafkaPartition(*tp) for tp in partitions])
        return [producer for state in answer.values() for producer in state.active_producers]

    def _connected(self) -> Any:
        from kafka.admin import KafkaAdminClient  # noqa: PLC0415

        from kafka_partition_events.clients.kafka_python.properties import (  # noqa: PLC0415
            kafka_python_settings,
        )

        if self._admin is None:
            connecting = kafka_python_settings(self._config)
            known = {
                name: value for name, value in connecting.items() if name in KafkaAdminClient.DEFAULT_CONFIG
            }
            limits = {"request_timeout_ms": _TIMEOUT_MS, "bootstrap_timeout_ms": _TIMEOUT_MS}
            self._admin = KafkaAdminClient(**{**known, **limits})
        return self._admin

    def close(self) -> None:
        """Close the connections."""
        admin, self._admin = self._admin, None
        if admin is not None:
            with contextlib.suppress(Exception):
                admin.close()
