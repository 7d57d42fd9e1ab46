"""Watch the demo's cluster: events onto the screen and, as CloudEvents, into a Kafka topic."""

import contextlib
from collections.abc import Iterator

from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.demo.display import Display
from kafka_partition_events.demo.scenario import EVENTS
from kafka_partition_events.listeners import KafkaEventListener
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller

_INTERVAL_S = 1.0
_FETCH_LIMIT_S = 3.0  # a question to the dead broker must not blur when its partitions went offline
_FIRST_LOOK_S = 20.0
_SYNC_S = 10.0


class Watcher:
    """A poller over all topics, its publisher and its announcer."""

    def __init__(self, poller: MetadataPoller, publisher: KafkaEventListener, display: Display) -> None:
        self._poller = poller
        self._publisher = publisher
        self.seen: list[ev.Event] = []
        """What changed, but not the state at the beginning."""
        announcer = _Announcer(display, self.seen)
        self._registrations = [poller.register(publisher), poller.register(announcer)]

    def follow_caps_of(self, producers: MetadataPoller) -> None:
        """Let what a producer finds out itself (caps, silent brokers) join the watcher's events."""
        producers.register(_Forwarder(self._poller), replay=False)

    def finish(self) -> str:
        """Publish what is still to be published; return what became of the events, in words."""
        self._poller.refresh("the end of the demo", wait=_SYNC_S)
        for registration in self._registrations:
            registration.wait_synced(_SYNC_S)
        self._publisher.flush(_SYNC_S)
        stats = self._publisher.stats
        return f"{EVENTS}: {stats.published:,} events published, {stats.failed + stats.pending:,} lost"


@contextlib.contextmanager
def open_watcher(bootstrap_servers: str, display: Display) -> Iterator[Watcher]:
    """Watch from now on."""
    config = {"bootstrap.servers": bootstrap_servers, "log_level": 2}
    source = ConfluentMetadataSource(config)
    with MetadataPoller(source, interval=_INTERVAL_S, fetch_timeout=_FETCH_LIMIT_S) as poller:
        publisher = KafkaEventListener({**config, "acks": "all"}, topic=EVENTS, observer="kpe-demo")
        poller.refresh("the beginning of the demo", wait=_FIRST_LOOK_S)
        yield Watcher(poller, publisher, display)


class _Announcer(PartitionChangeListener):
    """Shows and keeps every change, but not the state at the beginning."""

    name = "demo-display"

    def __init__(self, display: Display, seen: list[ev.Event]) -> None:
        self._display = display
        self._seen = seen

    def on_event(self, event: ev.Event) -> None:
        if not event.initial:
            self._seen.append(event)
            self._display.event(event)


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
