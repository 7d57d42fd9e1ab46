"""Asks for topics' ``cleanup.policy`` over a producer's own connections."""

# ruff: noqa: SLF001 - see `private`

from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeConfigsRequest

from kafka_partition_events.clients.answers import error_name
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, TOPIC, Answer, CleanupPolicies


def policies_over(cluster: Any) -> CleanupPolicies:
    """Return what asks any broker, by the connections of the producer that has this metadata."""
    manager = cluster._manager

    async def ask(topic: str) -> tuple[str | None, str]:
        request = DescribeConfigsRequest(resources=[(TOPIC, topic, ["cleanup.policy"])], min_version=0)
        (result,) = (await manager.wait_for(manager.send(request), 1000 * TIMEOUT_S)).results
        found = [it.value or "" for it in result.configs if it.name == "cleanup.policy"]
        return found[0] if found else None, error_name(errors.for_code, result.error_code)

    def describe(topic: str, answer: Answer) -> None:
        try:
            future = manager.call_soon(ask, topic)
        except Exception as error:  # noqa: BLE001 - the producer was closed
            answer(None, repr(error))
        else:
            future.add_callback(lambda found: answer(*found))
            future.add_errback(lambda error: answer(None, repr(error)))

    return CleanupPolicies(describe, lambda: None)
