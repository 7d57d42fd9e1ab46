"""The confluent-kafka producer that listeners and sinks make for themselves."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Producer


def make_producer(config: Mapping[str, Any]) -> "Producer":
    """Return a producer; it is idempotent and gathers records for 5 ms unless the configuration differs.

    Raises:
        ImportError: confluent-kafka is not installed.
    """
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra, needed for a configuration only

    return Producer({"enable.idempotence": True, "linger.ms": 5, **config})
