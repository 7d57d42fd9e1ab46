"""Asks the active controller for its time.

Kafka's protocol tells a broker's time in one answer only: DescribeQuorum (KIP-836, Kafka 3.3) gives, for the
leader of the metadata quorum itself, the moment at which it answers. librdkafka does not speak it,
kafka-python does. All else that carries a broker's time takes a record to be written first.
"""

import time
from collections.abc import Mapping
from typing import Any

from kafka_partition_events.cli.findings import QuorumAnswer

_NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
_CONNECTING = ("ssl.", "sasl.", "security.")


def ask_quorum(config: Mapping[str, str], *, timeout: float) -> QuorumAnswer | str:
    """Return how far the active controller's clock is ahead of this host's; else why that is not known.

    Args:
        config: How confluent-kafka connects.
        timeout: Seconds for one request.
    """
    foreign = [name for name in config if name.startswith(_CONNECTING) and name not in _NAMES]
    if foreign:
        return f"kafka-python is asked for it, and {foreign[0]} is a setting of confluent-kafka only"
    try:
        from kafka import KafkaAdminClient  # noqa: PLC0415 - not needed for anything else here
        from kafka.errors import KafkaError  # noqa: PLC0415
    except ImportError:
        return 'kafka-python is asked for it: pip install "kafka-partition-events[kafka-python]"'
    options: dict[str, Any] = {_NAMES[name]: value for name, value in config.items() if name in _NAMES}
    try:
        client = KafkaAdminClient(**options, request_timeout_ms=int(timeout * 1000))
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
