"""Into the outbox, and through it to Kafka: what a journal hears when a broker goes and comes back."""

import gc
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from io import FileIO
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from benchmarks.command import say
from benchmarks.errors import BenchError
from benchmarks.events.rows import Row, Target, inverse
from benchmarks.events.world import Story
from benchmarks.measure import Pair, interleaved
from kafka_partition_events import Event
from kafka_partition_events.events.cloudevents import RECORD_HEADERS
from kafka_partition_events.events.event_json import encode_event
from kafka_partition_events.jvm import java
from kafka_partition_events.outbox import Deliverer, Entry, SqliteOutbox
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events_listeners.journal import JournalListener
from kafka_partition_events_listeners.kafka_sink import KafkaSink

INTO_OUTBOX = Target(least=20_000)
_READERS = ("kafka", "webhook", "archive")
_LIMIT_S = 120.0
EVENTS = 8_001
"""Of one loss: so many, in fewer records."""
_TOPIC = "kpe.events"
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class Journal:
    """A journal in a file, with readers that have read nothing yet."""

    def __init__(self, directory: Path, story: Story) -> None:
        self.outbox = SqliteOutbox(directory / "events.db")
        for reader in _READERS:
            self.outbox.subscribe(reader)
        self._story = story
        self._listener = JournalListener(self.outbox)
        self._listener.on_settled(story.cluster, story.looked_at)  # the first snapshot, whole

    def prepare(self) -> tuple[Event, ...]:
        """Return what happens next."""
        return _next(self._story)

    def write(self, events: tuple[Event, ...]) -> None:
        """Write events, and the snapshot that they lead to."""
        for event in events:
            event.deliver(self._listener)
        self._listener.on_settled(self._story.cluster, self._story.looked_at)
        if self._listener.stats.waiting:
            raise BenchError(f"not everything was written: {self._listener.stats}")

    def cost(self) -> float:
        """Write what happens next; return the CPU seconds for an event."""
        events = self.prepare()
        began = time.thread_time()
        self.write(events)
        return (time.thread_time() - began) / len(events)

    @property
    def written(self) -> int:
        return self._listener.stats.written


class Recording:
    """The peer: the same events as JSON lines in a file, without ids, places or cursors."""

    def __init__(self, directory: Path, story: Story) -> None:
        self._story = story
        self._file = FileIO(directory / "events.jsonl", "a")

    def cost(self) -> float:
        """Write what happens next; return the CPU seconds for an event."""
        events = _next(self._story)
        began = time.thread_time()
        for event in events:
            self._file.write(_ENCODER.encode(encode_event(event)).encode() + b"\n")
        return (time.thread_time() - began) / len(events)

    def close(self) -> None:
        self._file.close()


def _next(story: Story) -> tuple[Event, ...]:
    events = story.next()
    gc.collect()  # the answer's 200,000 objects are not the outbox's
    return events


def measure_outbox(*, quick: bool) -> Iterator[Row]:
    losses = {
        "a broker's 2,000 leaders move": False,
        "the same, and its 6,000 replicas leave the ISR": True,
    }
    for what, shrinks in losses.items():
        with tempfile.TemporaryDirectory() as directory:
            journal = Journal(Path(directory), Story(shrinks=shrinks))
            recording = Recording(Path(directory), Story(shrinks=shrinks))
            pair = interleaved(journal.cost, recording.cost, 4 if quick else 12)
            journal.outbox.close()
            recording.close()
        yield _row(
            f"into the outbox, snapshot included: {what}", "events/s of CPU", pair, "JSON lines", INTO_OUTBOX
        )


def _row(what: str, unit: str, pair: Pair, peer: str, target: Target | None = None) -> Row:
    return Row(
        what=what,
        unit=unit,
        ours=inverse(pair.a),
        peer=(peer, inverse(pair.b)),
        ratio=pair.ratio,
        target=target,
        extra={"discarded": pair.discarded},
    )


# -- to Kafka ------------------------------------------------------------------------------------------


class ThroughTheOutbox:
    """Journal, file, deliverer, sink."""

    def __init__(self, directory: Path, config: dict[str, Any], story: Story) -> None:
        self.journal = Journal(directory, story)
        self._deliverer = Deliverer(self.journal.outbox, KafkaSink(config, _TOPIC, timeout=_LIMIT_S))
        self._deliverer.start()

    def send(self) -> float:
        """Write what happens next; return the seconds for an event until Kafka has acknowledged all."""
        events = self.journal.prepare()
        began = time.perf_counter()
        self.journal.write(events)
        self._await_delivered(self.journal.written)
        return (time.perf_counter() - began) / len(events)

    def _await_delivered(self, count: int) -> None:
        limit = time.monotonic() + _LIMIT_S
        while (stats := self._deliverer.stats).delivered < count:
            if time.monotonic() > limit:
                raise BenchError(f"Kafka did not take {count:,} events within {_LIMIT_S:.0f} s: {stats}")
            time.sleep(0.001)

    def close(self) -> None:
        self._deliverer.close()
        self.journal.outbox.close()


class PlainProducer:
    """The peer: a producer of the same settings that sends the same records as fast as it can."""

    def __init__(self, config: dict[str, Any], entries: Sequence[Entry], events: int) -> None:
        self._producer = Producer({"enable.idempotence": True, **config})
        self._entries, self._events = entries, events

    def send(self) -> float:
        """Send all; return the seconds for an event that they tell of, until Kafka has acknowledged all."""
        began = time.perf_counter()
        for entry in self._entries:
            self._producer.produce(_TOPIC, key=entry.key, value=entry.body, headers={**RECORD_HEADERS})
        if left := self._producer.flush(_LIMIT_S):
            raise BenchError(f"Kafka did not take {left:,} records within {_LIMIT_S:.0f} s")
        return (time.perf_counter() - began) / self._events


def measure_kafka(*, quick: bool) -> Iterator[Row]:
    if java() is None:
        say("no Java 17: the way to Kafka is left out")
        return
    with ExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        cluster = opened.enter_context(KafkaCluster(brokers=3))
        cluster.create_topic(_TOPIC, 3, replication_factor=3)
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
        ours = opened.enter_context(closing(ThroughTheOutbox(directory, config, Story(shrinks=True))))
        ours.send()
        plain = PlainProducer(config, ours.journal.outbox.read("webhook", EVENTS), EVENTS)
        pair = interleaved(ours.send, plain.send, 3 if quick else 9)
    yield _row("through the outbox to 3 brokers, acknowledged by all", "events/s", pair, "a plain producer")
