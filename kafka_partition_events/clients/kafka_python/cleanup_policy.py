"""Asks for topics' ``cleanup.policy`` over a producer's own connections."""

# ruff: noqa: SLF001 - see `private`

from contextlib import nullcontext
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeConfigsRequest

from kafka_partition_events.clients.answers import error_name
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, TOPIC, Answer, CleanupPolicies
from kafka_partition_events.clients.kafka_python.private import run


def policies_over(cluster: Any) -> CleanupPolicies:
    """Return what asks any broker, by the connections of the producer that has this metadata."""
    manager = cluster._manager

    async def answer(topic: str) -> Answer:
        request = DescribeConfigsRequest(resources=[(TOPIC, topic, ["cleanup.policy"])], min_version=0)
        (result,) = (await manager.send(request)).results
        found = [it.value or "" for it in result.configs if it.name == "cleanup.policy"]
        return found[0] if found else None, error_name(errors.for_code, result.error_code)

    return CleanupPolicies(lambda: nullcontext(lambda topic: run(manager, TIMEOUT_S, answer, topic)))
