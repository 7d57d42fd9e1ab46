"""Entries of the outbox to a target, once more, beside what the service delivers."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from attrs import frozen

from kafka_partition_events.cli.config import read_config, read_connection
from kafka_partition_events.cli.errors import CliError, one_line
from kafka_partition_events.cli.output import tell
from kafka_partition_events.cli.render import counted
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.settings import KafkaSinkSettings
from kafka_partition_events.observe.sinks import make_sink
from kafka_partition_events.outbox import DeliveryError, Entry, Sink, Stream


@frozen(kw_only=True)
class Replay:
    """Who gets them: a sink of the configuration, or a topic."""

    config: str | None
    sink: str | None
    topic: str | None
    bootstrap: str | None
    client_options: Sequence[str] | None


class Target:
    """A sink, and what it took."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.name = sink.name
        self.stream: Stream = sink.stream

    def deliver(self, entries: Iterable[Entry]) -> int:
        """Deliver entries in order; pass over what the target refuses, and return how many these were.

        Raises:
            CliError: the target failed; it says how far it came.
        """
        entries, delivered, refused = iter(entries), 0, 0
        while batch := list(islice(entries, self._sink.batch)):
            while batch:
                try:
                    self._sink.deliver(batch)
                    taken = len(batch)
                except DeliveryError as error:
                    taken = error.delivered
                    if not error.refused:
                        done = counted(delivered + taken, "event")
                        raise CliError(f"{done} delivered, then it failed: {one_line(error)}") from error
                    refused += 1
                    batch.pop(taken)
                delivered += taken
                del batch[:taken]
        told = f", {refused:,} refused" if refused else ""
        tell(f"{counted(delivered, 'event')} delivered to {self.name}{told}")
        return refused


@contextlib.contextmanager
def replay(request: Replay) -> Iterator[Target]:
    """Open the target.

    Raises:
        CliError: there is none of that name, or what it needs is missing.
    """
    if (request.sink is None) == (request.topic is None):
        raise CliError("say who gets them: either --sink NAME or --to-kafka TOPIC")
    try:
        sink = _to_topic(request, request.topic) if request.topic else _to_sink(request, request.sink)
    except (ConfigurationError, ImportError) as error:
        raise CliError(one_line(error)) from error
    with contextlib.closing(sink):
        yield Target(sink)


def _to_topic(request: Replay, topic: str) -> Sink:
    settings, _ = read_connection(request.config, request.bootstrap, request.client_options)
    return make_sink(KafkaSinkSettings(name=topic, topic=topic), settings.kafka)


def _to_sink(request: Replay, name: str | None) -> Sink:
    settings = read_config(request.config).settings
    for sink in settings.sinks:
        if sink.name == name:
            return make_sink(sink, settings.kafka)
    names = ", ".join(sink.name for sink in settings.sinks) or "none"
    raise CliError(f"there is no sink {name} in the configuration, only {names}")
