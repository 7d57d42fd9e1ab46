"""Asks for ``min.insync.replicas`` of topics. Needs confluent-kafka."""

import contextlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from kafka_partition_events.acls import Right
from kafka_partition_events.cli.common.errors import one_line
from kafka_partition_events.cli.services.protocols import FIRST_ANSWER_S, MinInsync
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.librdkafka import redacted

_NAME: Final = "min.insync.replicas"
_AT_ONCE: Final = 500
"""Topics in one request: a broker answers with all settings of each."""


def ask_min_insync(config: Mapping[str, str], topics: Sequence[str]) -> MinInsync:
    """Return the setting of those topics whose configuration may be seen, and why not of the others.

    Blocks for some seconds for each 500 topics; stops asking when nobody answers.

    Raises:
        ConfigurationError: librdkafka refuses a setting.
    """
    known: dict[str, int] = {}
    trouble: str | None = None
    waiting = iter(topics)
    with contextlib.closing(Connection(config)) as connection:
        while names := list(islice(waiting, _AT_ONCE)):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
            futures = connection.admin().describe_configs(resources, request_timeout=FIRST_ANSWER_S)
            before = len(known)
            for resource, future in futures.items():
                try:
                    known[resource.name] = int(future.result(FIRST_ANSWER_S + 1.0)[_NAME].value)
                except (KafkaException, TimeoutError) as error:
                    needed = Right(("DescribeConfigs",), "topic", resource.name)
                    failure = connection.failure(f"no configuration of {resource.name}", error, needed)
                    trouble = trouble or redacted(one_line(failure), config)
            if len(known) == before:
                break
    return MinInsync(known=known, trouble=trouble)
