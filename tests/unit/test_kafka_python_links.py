"""One question over a kafka-python connection manager: what becomes of an answer that comes too late."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.future import Future

from kafka_partition_events.clients.kafka_python.links import Link
from kafka_partition_events.errors import MetadataFetchError


class LateBroker(Link):
    """A link, and its manager, with one broker, whose answer has not come when the time is up."""

    def __init__(self) -> None:
        super().__init__({})
        self.reply = Future()
        self.connected = True
        self.parser = None
        self.cluster = SimpleNamespace(brokers=list, bootstrap_brokers=list)

    def manager(self) -> "LateBroker":
        return self

    def least_loaded_node(self) -> int:
        return 1

    def get_connection(self, node_id: int, *, refresh_metadata_on_err: bool) -> "LateBroker":
        return self

    def send_request(self, request: Any) -> Future:
        return self.reply

    async def wait_for(self, future: Future, timeout_ms: float) -> Any:
        raise errors.KafkaTimeoutError("not within the time")

    def call_soon(self, function: Any, *arguments: Any) -> Future:
        done = Future()
        try:
            function(*arguments).send(None)
        except StopIteration as returned:
            done.success(returned.value)
        except MetadataFetchError as error:
            done.failure(error)
        return done


def test_an_answer_that_comes_too_late_is_not_kept() -> None:
    broker = LateBroker()
    with pytest.raises(MetadataFetchError, match="not within the time"):
        broker.ask(None, 0.0, 10.0)
    late = SimpleNamespace(topics=["a hundred thousand partitions"])
    broker.reply.success(late)
    assert late.topics == []
