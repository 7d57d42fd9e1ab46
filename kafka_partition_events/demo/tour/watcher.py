"""Who receives the events: the screen, a Kafka topic, a webhook. One poller serves all of them."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.demo.stored import read_values
from kafka_partition_events.demo.tour.lines import Lines
from kafka_partition_events.demo.tour.receiver import Receiver
from kafka_partition_events.demo.tour.scenario import EVENTS
from kafka_partition_events.events.cloudevents import TYPE_PREFIX, to_cloudevent
from kafka_partition_events.listeners import KafkaSink, SinkListener, WebhookSink
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.poller import MetadataPoller

_INTERVAL_S: Final = 1.0
_FETCH_LIMIT_S: Final = 3.0  # a request to the dead broker must not blur when its partitions went offline
_FIRST_LIMIT_S: Final = 20.0
_SYNC_S: Final = 10.0
_OBSERVER: Final = "kpe-demo"


@frozen
class Received:
    """Who received which events; all but `initial` as id -> name.

    Attributes:
        screen: What was shown.
        topic: What a consumer finds in the topic of events.
        webhook: What was posted to it.
        initial: How many more the topic has, which name the state at the beginning.
    """

    screen: Mapping[str, str]
    topic: Mapping[str, str]
    webhook: Mapping[str, str]
    initial: int

    @property
    def alike(self) -> bool:
        """Whether the topic and the webhook received what the screen did, event by event."""
        return bool(self.screen) and self.screen == self.topic == self.webhook


class Watcher:
    """A poller over all topics, and its listeners."""

    def __init__(
        self,
        bootstrap_servers: str,
        poller: MetadataPoller,
        publisher: SinkListener,
        hook: Receiver,
        lines: Lines,
    ) -> None:
        self._bootstrap = bootstrap_servers
        self._poller = poller
        self._publisher = publisher
        self._hook = hook
        poster = SinkListener(WebhookSink(hook.url, events=["*"]), observer=_OBSERVER)
        self.announcer = Announcer(lines, poller)
        self._registrations = [poller.register(each) for each in (publisher, poster, self.announcer)]

    def follow(self, producer: MetadataPoller) -> None:
        """Let what a producer finds out itself (caps, suspect brokers) join the watcher's events."""
        producer.register(_Forwarder(self._poller), replay=False)

    def finish(self) -> Received:
        """Wait until everyone has received all events, but not for long."""
        self._poller.refresh("the end of the demo", wait=_SYNC_S)
        for registration in self._registrations:
            registration.wait_synced(_SYNC_S)
        self._poller.close()  # what reading the topic does to the cluster is no part of the demo
        made = [to_cloudevent(event, observer=_OBSERVER) for event in self.announcer.seen]
        self._hook.await_posts(len(made), _SYNC_S)
        stored = list(map(json.loads, read_values(self._bootstrap, EVENTS, 1)))
        news = [each for each in stored if not each["data"]["initial"]]
        return Received(
            screen=_names(each.get_attributes() for each in made),
            topic=_names(news),
            webhook=_names(map(json.loads, self._hook.bodies)),
            initial=len(stored) - len(news),
        )


def _names(cloudevents: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return id -> name, without what all types begin and end with."""
    return {each["id"]: each["type"][len(TYPE_PREFIX) + 1 : -len(".v1")] for each in cloudevents}


@contextlib.contextmanager
def open_watcher(bootstrap_servers: str, hook: Receiver, lines: Lines) -> Iterator[Watcher]:
    """Watch from now on."""
    config = {"bootstrap.servers": bootstrap_servers, "log_level": 2}
    source = ConfluentMetadataSource(config)
    with MetadataPoller(source, interval=_INTERVAL_S, fetch_timeout=_FETCH_LIMIT_S) as poller:
        publisher = SinkListener(KafkaSink({**config, "acks": "all"}, EVENTS), observer=_OBSERVER)
        poller.refresh("the beginning of the demo", wait=_FIRST_LIMIT_S)
        yield Watcher(bootstrap_servers, poller, publisher, hook, lines)


class Announcer(PartitionChangeListener):
    """Shows and keeps every change.

    Attributes:
        seen: What changed.
        snapshots: The cluster after each event, with the time (s, monotonic).
    """

    name = "demo-display"

    def __init__(self, lines: Lines, poller: MetadataPoller) -> None:
        self.seen: list[ev.Event] = []
        self.snapshots: list[tuple[float, Cluster]] = []
        self._lines = lines
        self._poller = poller

    def on_event(self, event: ev.Event) -> None:
        """Show and keep it."""
        if (cluster := self._poller.cluster) is not None:
            self.snapshots.append((time.monotonic(), cluster))
        if not event.initial:
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
