"""Asks for topics' ``cleanup.policy`` over a client's connections, on its loop."""

import asyncio
from concurrent.futures import Future
from typing import Any

from aiokafka import errors
from aiokafka.protocol.admin import DescribeConfigsRequest

from kafka_partition_events.clients.aiokafka.calls import Calls, LoopEndedError
from kafka_partition_events.clients.aiokafka.source import OWN_GROUP
from kafka_partition_events.clients.answers import error_name
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, TOPIC, Answer, CleanupPolicies


def policies_over(client: Any, calls: Calls) -> CleanupPolicies:
    """Return what asks any broker."""

    async def ask(topic: str) -> tuple[str | None, str]:
        request = DescribeConfigsRequest([(TOPIC, topic, ["cleanup.policy"])])
        async with asyncio.timeout(TIMEOUT_S):
            response = await client.send(client.get_random_node(), request, group=OWN_GROUP)
        ((code, _message, _kind, _name, entries),) = response.resources
        found = [value or "" for name, value, *_ in entries if name == "cleanup.policy"]
        return found[0] if found else None, error_name(errors.for_code, code)

    def describe(topic: str, answer: Answer) -> None:
        def answered(future: Future[tuple[str | None, str]]) -> None:
            try:
                policy, why = future.result()
            except Exception as error:  # noqa: BLE001 - of the network, or the producer was stopped
                policy, why = None, repr(error)
            answer(policy, why)

        try:
            calls.start(ask(topic)).add_done_callback(answered)
        except LoopEndedError as error:
            answer(None, repr(error))

    return CleanupPolicies(describe, lambda: None)
