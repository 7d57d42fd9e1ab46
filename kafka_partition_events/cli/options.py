"""What the user typed, made into values: durations, client options, topic filters."""

import math
import re
from collections.abc import Callable, Iterable

from attrs import evolve

from kafka_partition_events.cli.errors import CliError
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.events import Event, MetadataRejected, Resync, TopicEvent

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_OPTION_NAME = re.compile(r"[A-Za-z0-9._-]+")


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as ``500ms``, ``5s``, ``10m`` or ``1h`` means.

    Raises:
        CliError: it means none, or no time at all.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise CliError(f"{text!r} is not a duration; write a number and ms, s, m or h, such as 500ms or 10m")
    seconds = float(found[1]) * _UNITS[found[2]]
    if not 0 < seconds < math.inf:
        raise CliError(f"a duration must be longer than nothing, not {text!r}")
    return seconds


def parse_client_options(bootstrap: str, pairs: Iterable[str]) -> dict[str, str]:
    """Return the confluent-kafka configuration of ``-b`` and ``-X key=value ...``.

    Raises:
        CliError: a pair has no ``=``; the message does not repeat it, because it may be a password. Or no
            broker is given.
    """
    if not bootstrap.strip(", "):
        raise CliError("no broker is given; write -b HOST:PORT")
    config = {"bootstrap.servers": bootstrap}
    for place, pair in enumerate(pairs, start=1):
        name, equals, value = pair.partition("=")
        if not equals or not _OPTION_NAME.fullmatch(name):
            raise CliError(f"-X number {place} is not of the form key=value")
        if name == "bootstrap.servers":
            raise CliError("give the brokers with -b, not with -X bootstrap.servers")
        config[name] = value
    return config


class TopicFilter:
    """The topics that the user wants to see: a regular expression that must match the whole name.

    The whole name, as with Kafka's own tools: ``--topic orders`` is one topic, ``--topic 'orders.*'`` is a
    family. Events that concern no single topic always pass.
    """

    def __init__(self, pattern: str | None) -> None:
        """Make a filter; None lets everything pass.

        Raises:
            CliError: it is not a regular expression.
        """
        self._matches: Callable[[str], object] = lambda _name: True
        if pattern is not None:
            try:
                self._matches = re.compile(pattern).fullmatch
            except re.error as error:
                raise CliError(f"--topic {pattern!r} is not a regular expression: {error}") from None

    def wants(self, event: Event) -> bool:
        """Tell whether an event is to be shown."""
        topic = event.topic if isinstance(event, TopicEvent | MetadataRejected) else None
        return topic is None or bool(self._matches(topic))

    def narrowed(self, cluster: Cluster) -> Cluster:
        """Return the snapshot with the wanted topics only."""
        return Cluster(
            nodes=cluster.nodes,
            by_topic=[info for name, info in cluster.by_topic.items() if self._matches(name)],
            cluster_id=cluster.cluster_id,
            generation=cluster.generation,
        )

    def shown(self, event: Event) -> Event | None:
        """Return the event as it is to be shown, None when it is not."""
        if isinstance(event, Resync):
            return evolve(event, cluster=self.narrowed(event.cluster))
        return event if self.wants(event) else None
