"""Metadata through aiokafka."""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from typing import Any, Final

from aiokafka import AIOKafkaClient, AIOKafkaProducer, errors

from kafka_partition_events.clients.aiokafka.calls import Calls, LoopEndedError
from kafka_partition_events.clients.aiokafka.metadata_request import AskMetadata, in_their_words
from kafka_partition_events.clients.aiokafka.private import topics_of
from kafka_partition_events.clients.answers import observation
from kafka_partition_events.clients.refused_topics import RefusedTopics
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.process import OwnProcess

OWN_GROUP: Final = "kpe-metadata"
"""The group of our connections: behind a write that waits for a replica a question would wait, too."""

_LEAST_TRY_S: Final = 0.2


class AiokafkaMetadataSource:
    """Asks a cluster over an aiokafka client: topic ids, leader epochs, racks. Never creates a topic.

    It asks on the client's event loop, by connections of its own; the poller's thread waits for the answer,
    for as long as a fetch may take, and the loop never waits for that thread. Needs Kafka 3.1 or newer.

    A producer knows new partitions before this library does: aiokafka by itself asks only every five minutes.
    """

    def __init__(
        self,
        producer_or_client: AIOKafkaProducer | AIOKafkaClient,
        suspects: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        """Make a source, on the event loop of a producer or client that was started. Nothing is asked yet.

        Args:
            producer_or_client: Whose connections are used. It has to be stopped after the poller.
            suspects: Returns brokers that are asked last.

        Raises:
            ConfigurationError: it is neither, or no event loop runs.
        """
        self._teaches = isinstance(producer_or_client, AIOKafkaProducer)
        if not self._teaches and not isinstance(producer_or_client, AIOKafkaClient):
            kind = type(producer_or_client).__name__
            raise ConfigurationError(f"give an AIOKafkaProducer or an AIOKafkaClient, not a {kind}")
        self._client = producer_or_client.client if self._teaches else producer_or_client
        self._suspects = suspects
        self._refusals = RefusedTopics()
        self._process = OwnProcess(type(producer_or_client).__name__)
        try:
            self.loop = asyncio.get_running_loop()
            """The event loop that it needs: what waits for an answer must not block it."""
        except RuntimeError as error:
            raise ConfigurationError("make it on the event loop of its client: in a coroutine") from error
        self.calls = Calls(self.loop)
        """For this library."""

    def fetch(self, topics: frozenset[str] | None, /, *, started_at: float, timeout: float) -> Observation:
        """Ask the cluster once. Not on the event loop.

        Args:
            topics: The topics to ask for; None asks for all. Those that the client knows are asked for, too.
            started_at: The poller's clock now.
            timeout: Seconds after which to give up, also if the loop is busy for so long.

        Raises:
            MetadataFetchError: there was no answer, and why.
            ForkedError: the source was made before a fork.
        """
        self._process.check()
        deadline = time.monotonic() + timeout
        try:
            answer = self.calls.run(self._ask(topics, started_at, deadline), timeout)
        except TimeoutError:
            raise MetadataFetchError(f"no answer within {timeout:.3g} s") from None
        except LoopEndedError as error:
            raise MetadataFetchError(str(error)) from error
        self._refusals.report(answer.errors, None)
        return answer

    async def _ask(self, topics: frozenset[str] | None, started_at: float, deadline: float) -> Observation:
        """Try one broker after the other, each with half of the time that is left: one may be frozen."""
        # What the producer knows is replaced as a whole by what it is taught.
        wanted = None if topics is None else topics | topics_of(self._client)
        complaints = []
        for node_id in self._candidates():
            if (left := deadline - time.monotonic()) <= 0:
                break
            try:
                async with asyncio.timeout(min(left, max(left / 2, _LEAST_TRY_S))):
                    response = await self._client.send(node_id, AskMetadata(wanted), group=OWN_GROUP)
            except NotImplementedError as error:
                raise MetadataFetchError(f"broker {node_id} is older than Kafka 3.1: {error}") from error
            except (errors.KafkaError, OSError) as error:  # a TimeoutError is an OSError
                complaints.append(f"{node_id}: {str(error) or 'no answer'}")
                continue
            answer = observation(response, node_id, wanted, started_at, errors.for_code)
            if self._teaches:
                self._teach(response)
            return answer
        raise MetadataFetchError(f"no broker answers ({'; '.join(complaints) or 'none is known'})")

    def _candidates(self) -> list[int]:
        suspects, nodes = self._suspects(), [broker.nodeId for broker in self._client.cluster.brokers()]
        random.shuffle(nodes)
        return sorted(nodes, key=lambda node: node in suspects)

    def _teach(self, response: Any) -> None:
        """Let the producer know a topic's new partitions; by itself it asks only every five minutes.

        Topics with an error are left out, and come back when the producer needs them.
        """
        known = self._client.cluster
        counts = {t.name: len(t.partitions) for t in response.topics if not t.error_code}
        had = {name: known.partitions_for_topic(name) for name in counts}
        if any(ids is not None and len(ids) < counts[name] for name, ids in had.items()):
            mine = [name for name, ids in had.items() if ids is not None]
            known.update_metadata(in_their_words(response, mine))

    def close(self) -> None:
        """Leave the client alone."""
        self.calls.end()
