"""Who is told: whoever looks at the screen, a Kafka topic, a webhook. One poller looks for all of them."""

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.demo.tour.lines import Lines
from kafka_partition_events.demo.tour.receiver import Receiver
from kafka_partition_events.demo.tour.scenario import EVENTS
from kafka_partition_events.listeners import KafkaEventListener, WebhookListener
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller

_INTERVAL_S: Final = 1.0
_FETCH_LIMIT_S: Final = 3.0  # a question to the dead broker must not blur when its partitions went offline
_FIRST_LIMIT_S: Final = 20.0
_SYNC_S: Final = 10.0


@frozen
class Told:
    """Who was told how many events."""

    shown: int
    published: int
    lost: int
    posted: int


class Watcher:
    """A poller over all topics, and its listeners."""

    def __init__(
        self, poller: MetadataPoller, publisher: KafkaEventListener, hook: Receiver, lines: Lines
    ) -> None:
        self._poller = poller
        self._publisher = publisher
        self._hook = hook
        # The receiver is on this machine, which a webhook refuses unless it is told otherwise.
        poster = WebhookListener(hook.url, events=["*"], allow_private=True)
        self.announcer = Announcer(lines, poller)
        self._registrations = [poller.register(each) for each in (publisher, poster, self.announcer)]

    def follow(self, producer: MetadataPoller) -> None:
        """Let what a producer finds out itself (caps, suspect brokers) join the watcher's events."""
        producer.register(_Forwarder(self._poller), replay=False)

    def finish(self) -> Told:
        """Wait until everybody has been told."""
        self._poller.refresh("the end of the demo", wait=_SYNC_S)
        for registration in self._registrations:
            registration.wait_synced(_SYNC_S)
        self._publisher.flush(_SYNC_S)
        shown = len(self.announcer.seen)
        self._hook.await_posts(shown, _SYNC_S)
        stats = self._publisher.stats
        published = stats.published - self.announcer.initial  # the topic is told of the beginning, too
        return Told(shown, published, stats.failed + stats.pending, self._hook.posts)


@contextlib.contextmanager
def open_watcher(bootstrap_servers: str, hook: Receiver, lines: Lines) -> Iterator[Watcher]:
    """Watch from now on."""
    config = {"bootstrap.servers": bootstrap_servers, "log_level": 2}
    source = ConfluentMetadataSource(config)
    with MetadataPoller(source, interval=_INTERVAL_S, fetch_timeout=_FETCH_LIMIT_S) as poller:
        publisher = KafkaEventListener({**config, "acks": "all"}, topic=EVENTS, observer="kpe-demo")
        poller.refresh("the beginning of the demo", wait=_FIRST_LIMIT_S)
        yield Watcher(poller, publisher, hook, lines)


class Announcer(PartitionChangeListener):
    """Shows and keeps every change.

    Attributes:
        seen: What changed.
        initial: How many events told the state at the beginning.
        snapshots: The cluster after each event, with the time (s, monotonic).
    """

    name = "demo-display"

    def __init__(self, lines: Lines, poller: MetadataPoller) -> None:
        self.seen: list[ev.Event] = []
        self.initial = 0
        self.snapshots: list[tuple[float, Cluster]] = []
        self._lines = lines
        self._poller = poller

    def on_event(self, event: ev.Event) -> None:
        """Show and keep it."""
        if (cluster := self._poller.cluster) is not None:
            self.snapshots.append((time.monotonic(), cluster))
        if event.initial:
            self.initial += 1
        else:
            self.seen.append(event)
            self._lines.event(event)


class _Forwarder(PartitionChangeListener):
    """Brings what only a producer knows from its own poller into the watcher's stream of events."""

    name = "demo-producer"

    def __init__(self, watcher: MetadataPoller) -> None:
        self._watcher = watcher

    def on_cap_reached(self, event: ev.CapReached) -> None:
        self._watcher.emit(event)

    def on_cap_lifted(self, event: ev.CapLifted) -> None:
        self._watcher.emit(event)

    def on_broker_suspected(self, event: ev.BrokerSuspected) -> None:
        self._watcher.emit(event)

    def on_broker_cleared(self, event: ev.BrokerCleared) -> None:
        self._watcher.emit(event)
