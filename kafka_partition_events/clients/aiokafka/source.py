"""Metadata through aiokafka."""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Any, Final

from aiokafka import AIOKafkaClient, errors
from aiokafka.protocol.admin import DescribeConfigsRequest

from kafka_partition_events.clients.aiokafka.calls import Calls
from kafka_partition_events.clients.aiokafka.metadata_request import AskMetadata, in_their_words
from kafka_partition_events.clients.aiokafka.private import topics_of
from kafka_partition_events.clients.answers import NoAnswerError, error_name, first_answer, grown, observation
from kafka_partition_events.clients.flight.cleanup_policy import TIMEOUT_S, TOPIC, Answer, CleanupPolicies
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.loop import LoopEndedError
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.process import OwnProcess

OWN_GROUP: Final = "kpe-metadata"
"""The group of our connections: behind a write that waits for a replica a question would wait, too."""


class AiokafkaMetadataSource:
    """Asks a cluster over an aiokafka client: topic ids, leader epochs, racks. Never creates a topic.

    It asks on the client's event loop, by connections of its own; the poller's thread waits for the answer,
    for as long as a fetch may take, and the loop never waits for that thread. Needs Kafka 3.1 or newer.

    The client knows new partitions before this library does: by itself it asks only every five minutes.
    """

    def __init__(self, client: AIOKafkaClient, suspects: Callable[[], Collection[int]] = frozenset) -> None:
        """Make a source, on the event loop of a client that was started. Nothing is asked yet.

        Args:
            client: Whose connections are used, such as a producer's ``client``. It has to be closed after the
                poller.
            suspects: Returns brokers that are asked last.

        Raises:
            ConfigurationError: it is none, or no event loop runs.
        """
        if not isinstance(client, AIOKafkaClient):
            raise ConfigurationError(f"give an AIOKafkaClient, not a {type(client).__name__}")
        self._client = client
        self._suspects = suspects
        self._process = OwnProcess("AiokafkaMetadataSource")
        try:
            self.loop = asyncio.get_running_loop()
            """The event loop that it needs: what waits for an answer must not block it."""
        except RuntimeError as error:
            raise ConfigurationError("make it on the event loop of its client: in a coroutine") from error
        self.calls = Calls(self.loop)
        """For this library."""

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        """Ask the cluster once. Not on the event loop.

        Args:
            topics: The topics to ask for; None asks for all. Those that the client knows are asked for, too.
            timeout: Seconds after which to give up, also if the loop is busy for so long.

        Raises:
            MetadataFetchError: there was no answer, and why.
            ForkedError: the source was made before a fork.
        """
        self._process.check()
        deadline = time.monotonic() + timeout
        try:
            return self.calls.run(self._ask(topics, deadline), timeout)
        except TimeoutError:
            raise MetadataFetchError(f"no answer within {timeout:.3g} s") from None
        except LoopEndedError as error:
            raise MetadataFetchError(str(error)) from error

    async def _ask(self, topics: frozenset[str] | None, deadline: float) -> Observation:
        """Ask one broker after the other; suspects are the last."""
        # What the client knows is replaced as a whole by what it is taught.
        wanted = None if topics is None else topics | topics_of(self._client)

        async def ask(node_id: int, limit_s: float) -> Any:
            try:
                async with asyncio.timeout(limit_s):
                    return await self._client.send(node_id, AskMetadata(wanted), group=OWN_GROUP)
            except NotImplementedError as error:
                raise MetadataFetchError(f"broker {node_id} is older than Kafka 3.1: {error}") from error
            except (errors.KafkaError, OSError) as error:  # a TimeoutError is an OSError
                raise NoAnswerError(str(error) or "no answer") from error

        known, suspects = self._client.cluster, self._suspects()
        nodes = [broker.nodeId for broker in known.brokers()]
        random.shuffle(nodes)
        nodes.sort(key=lambda node: node in suspects)
        node_id, response = await first_answer(nodes, ask, deadline, {})
        answer = observation(response, node_id, wanted, errors.for_code)
        if grown(known, response):
            # Topics with an error are left out, and come back when the client needs them.
            mine = [t.name for t in response.topics if known.partitions_for_topic(t.name) is not None]
            known.update_metadata(in_their_words(response, mine))
        return answer

    def close(self) -> None:
        """Leave the client alone."""
        self.calls.end()


def policies_over(client: Any, calls: Calls) -> CleanupPolicies:
    """Return what asks any broker for topics' ``cleanup.policy``, on the client's loop."""

    async def answer(topic: str) -> Answer:
        request = DescribeConfigsRequest([(TOPIC, topic, ["cleanup.policy"])])
        response = await client.send(client.get_random_node(), request, group=OWN_GROUP)
        ((code, _message, _kind, _name, entries),) = response.resources
        found = [value or "" for name, value, *_ in entries if name == "cleanup.policy"]
        return found[0] if found else None, error_name(errors.for_code, code)

    return CleanupPolicies(lambda: nullcontext(lambda topic: calls.run(answer(topic), TIMEOUT_S)))
