"""Asks for topics' ``cleanup.policy`` over a client's connections, on its loop."""

import asyncio
from contextlib import suppress
from typing import Any

from aiokafka import errors
from aiokafka.protocol.admin import DescribeConfigsRequest

from kafka_partition_events.clients.aiokafka.calls import Calls
from kafka_partition_events.clients.aiokafka.source import OWN_GROUP
from kafka_partition_events.clients.answers import error_name
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, TOPIC, Answer, CleanupPolicies
from kafka_partition_events.metadata.loop import LoopEndedError


def policies_over(client: Any, calls: Calls) -> CleanupPolicies:
    """Return what asks any broker."""

    async def ask(topic: str, answer: Answer) -> None:
        request = DescribeConfigsRequest([(TOPIC, topic, ["cleanup.policy"])])
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await client.send(client.get_random_node(), request, group=OWN_GROUP)
        except Exception as error:  # noqa: BLE001 - of the network
            return answer(None, repr(error))
        ((code, _message, _kind, _name, entries),) = response.resources
        found = [value or "" for name, value, *_ in entries if name == "cleanup.policy"]
        return answer(found[0] if found else None, error_name(errors.for_code, code))

    def describe(topic: str, answer: Answer) -> None:
        with suppress(LoopEndedError):  # then no key moves any more
            calls.start(ask(topic, answer))

    return CleanupPolicies(describe, lambda: None)
