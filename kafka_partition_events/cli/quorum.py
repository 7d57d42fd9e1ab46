"""Asks the active controller for its time.

Kafka's protocol tells a broker's time in one answer only: DescribeQuorum (KIP-836, Kafka 3.3) gives, for the
leader of the metadata quorum itself, the moment at which it answers. librdkafka does not speak it,
kafka-python does. All else that carries a broker's time takes a record to be written first.
"""

import time
from collections.abc import Mapping
from typing import Any

from kafka_partition_events.cli.findings import QuorumAnswer
from kafka_partition_events.errors import ConfigurationError


def ask_quorum(config: Mapping[str, str], *, timeout: float) -> QuorumAnswer | str:
    """Return how far the active controller's clock is ahead of this host's; else why that is not known.

    Args:
        config: How confluent-kafka connects.
        timeout: Seconds for one request.
    """
    try:
        from kafka import KafkaAdminClient  # noqa: PLC0415 - an extra
        from kafka.errors import KafkaError  # noqa: PLC0415

        from kafka_partition_events.clients.kafka_python.properties import (  # noqa: PLC0415
            kafka_python_settings,
        )
    except ImportError:
        return (
            "only kafka-python can ask for a broker's time, and it is not installed: "
            'pip install "kafka-partition-events[kafka-python]"'
        )
    limit_ms = int(timeout * 1000)
    try:
        settings = kafka_python_settings(config)
    except ConfigurationError as error:
        return f"only kafka-python can ask for a broker's time, and it can't connect: {error}"
    known = {name: value for name, value in settings.items() if name in KafkaAdminClient.DEFAULT_CONFIG}
    try:
        client = KafkaAdminClient(
            **{**known, "request_timeout_ms": limit_ms, "bootstrap_timeout_ms": limit_ms}
        )
        try:
            began = time.time()
            quorum = client.describe_metadata_quorum()
            ended = time.time()
        finally:
            client.close()
    except (KafkaError, OSError, ValueError) as error:
        return f"no answer about the metadata quorum: {type(error).__name__}"
    stamp = _leader_time(quorum)
    if stamp is None:
        return "the metadata quorum does not tell its leader's time (Kafka 3.3 and newer do)"
    return QuorumAnswer(ahead=stamp - (began + ended) / 2, uncertainty=(ended - began) / 2)


def _leader_time(quorum: Mapping[str, Any]) -> float | None:
    """Return the leader's own time stamp in seconds."""
    for topic in quorum["topics"]:
        for partition in topic["partitions"]:
            for voter in partition["current_voters"]:
                stamp: int = voter.get("last_fetch_timestamp", -1)
                if voter["replica_id"] == partition["leader_id"] and stamp > 0:
                    return stamp / 1000
    return None
