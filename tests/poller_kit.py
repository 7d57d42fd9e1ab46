"""What tests of the poller share: answers, pollers that are closed in the end, and patience."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, cast

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import Hang, ScriptedSource, Step, observe

WAIT_S = 10.0
DOWN = MetadataFetchError("down")
BROKERS = [1, 2, 3]


def orders(*leaders: int | None, **more: Any) -> Observation:
    return observe({"orders": leaders}, brokers=BROKERS, **more)


class Pollers:
    """Makes pollers from steps or a source; in the end they are closed, and no fetch hangs on."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._pollers: list[MetadataPoller] = []
        self._hangs: list[Hang] = []

    def __call__(self, *script: Step | ScriptedSource, **options: Any) -> MetadataPoller:
        source = script[0] if isinstance(script[0], ScriptedSource) else ScriptedSource(*cast("Any", script))
        self._hangs.extend(step for step in script if isinstance(step, Hang))
        poller = MetadataPoller(source, clock=options.pop("clock", self._clock), **options)
        self._pollers.append(poller)
        return poller

    def close(self) -> None:
        for hang in self._hangs:
            hang.release()
        for poller in self._pollers:
            poller.close()


def also_ask_for(poller: MetadataPoller, *topics: str) -> None:
    """Have a poller ask for more topics from its next poll on, as if a producer wrote them."""
    poller._topics = frozenset(poller._topics or ()).union(topics)


class Table(PartitionChangeListener):
    """A partitioner, as far as the poller is concerned."""

    def __init__(self, *found_out: ev.Event, error: Exception | None = None) -> None:
        self.adopted: list[Cluster | None] = []
        self.found_out, self.error = found_out, error

    def apply_snapshot(self, cluster: Cluster | None) -> tuple[ev.Event, ...]:
        self.adopted.append(cluster)
        if self.error is not None:
            raise self.error
        return self.found_out if cluster is not None else ()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    pause = threading.Event()
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(0.001)


async def until(holds: Callable[[], bool]) -> None:
    """Wait on the loop for what another thread is about to do."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
