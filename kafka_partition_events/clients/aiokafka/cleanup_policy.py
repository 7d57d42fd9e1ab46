"""Asks for topics' ``cleanup.policy`` over a client's connections, on its loop."""

from contextlib import nullcontext
from typing import Any

from aiokafka import errors
from aiokafka.protocol.admin import DescribeConfigsRequest

from kafka_partition_events.clients.aiokafka.calls import Calls
from kafka_partition_events.clients.aiokafka.source import OWN_GROUP
from kafka_partition_events.clients.answers import error_name
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, TOPIC, Answer, CleanupPolicies


def policies_over(client: Any, calls: Calls) -> CleanupPolicies:
    """Return what asks any broker."""

    async def answer(topic: str) -> Answer:
        request = DescribeConfigsRequest([(TOPIC, topic, ["cleanup.policy"])])
        response = await client.send(client.get_random_node(), request, group=OWN_GROUP)
        ((code, _message, _kind, _name, entries),) = response.resources
        found = [value or "" for name, value, *_ in entries if name == "cleanup.policy"]
        return found[0] if found else None, error_name(errors.for_code, code)

    return CleanupPolicies(lambda: nullcontext(lambda topic: calls.run(answer(topic), TIMEOUT_S)))
