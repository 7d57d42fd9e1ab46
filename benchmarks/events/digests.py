"""What one look finds as digests, and with a record for each event: records, bytes, and what they cost."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.command import say
from benchmarks.events.rows import Row
from benchmarks.events.world import Story
from benchmarks.measure import Pair, Spread, interleaved
from kafka_partition_events.events.digests import Observed, fold
from kafka_partition_events.jvm import java
from kafka_partition_events.outbox import Entry, SqliteOutbox, Write
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events_listeners.kafka_sink import KafkaSink

_TOPIC = "kpe.events"
_PEER = "a record for each event"
Make = Callable[[Sequence[Observed]], list[Entry]]


def _folded(look: Sequence[Observed]) -> list[Entry]:
    return fold(look, observer="kpe-1")


def _singly(look: Sequence[Observed]) -> list[Entry]:
    return [entry for each in look for entry in _folded([each])]


def _lost() -> list[Observed]:
    """Return what a look finds when the broker has gone."""
    story = Story(shrinks=True)
    now = datetime.now(UTC)
    return [Observed(event=event, recorded_at=now) for event in story.next()]


def measure(*, quick: bool) -> Iterator[Row]:
    runs = 3 if quick else 15
    look = _lost()
    entries: dict[str, list[Entry]] = {"ours": _folded(look), "peer": _singly(look)}
    yield _count("records of the loss of a broker", "", entries, len)
    yield _count("bytes of these", "B", entries, lambda made: sum(len(entry.body) for entry in made))
    yield _count("the largest", "B", entries, lambda made: max(len(entry.body) for entry in made))
    made = interleaved(partial(_made, _folded, look), partial(_made, _singly, look), runs)
    yield _row("to make them", "ms of CPU", made)
    pair = interleaved(partial(_written, entries["ours"]), partial(_written, entries["peer"]), runs)
    yield _row("to write them into the outbox", "ms of CPU", pair)
    if java() is None:
        say("no Java 17: the way to Kafka is left out")
        return
    with ExitStack() as opened:
        cluster = opened.enter_context(KafkaCluster(brokers=3))
        cluster.create_topic(_TOPIC, 3, replication_factor=3)
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2}
        sink = opened.enter_context(closing(KafkaSink(config, _TOPIC, timeout=120.0)))
        pair = interleaved(partial(_sent, sink, entries["ours"]), partial(_sent, sink, entries["peer"]), runs)
    yield _row("until 3 brokers have acknowledged them", "ms", pair)


def _made(make: Make, look: Sequence[Observed]) -> float:
    began = time.thread_time()
    make(look)
    return time.thread_time() - began


def _sent(sink: KafkaSink, entries: Sequence[Entry]) -> float:
    began = time.perf_counter()
    for first in range(0, len(entries), sink.batch):
        sink.deliver(entries[first : first + sink.batch])
    return time.perf_counter() - began


def _written(entries: Sequence[Entry]) -> float:
    with _outbox() as outbox:
        began = time.thread_time()
        outbox.write(Write(entries=tuple(entries)))
        return time.thread_time() - began


@contextmanager
def _outbox() -> Iterator[SqliteOutbox]:
    with tempfile.TemporaryDirectory() as directory:
        outbox = SqliteOutbox(Path(directory) / "events.db")
        outbox.subscribe("kafka")
        with closing(outbox):
            yield outbox


def _count(
    what: str, unit: str, entries: dict[str, list[Entry]], number: Callable[[list[Entry]], int]
) -> Row:
    ours, peer = (float(number(entries[side])) for side in ("ours", "peer"))
    return Row(what=what, unit=unit, ours=Spread.of([ours]), peer=(_PEER, Spread.of([peer])),
               ratio=Spread.of([ours / peer]))  # fmt: skip


def _row(what: str, unit: str, pair: Pair) -> Row:
    def in_ms(spread: Spread) -> Spread:
        return Spread(1000 * spread.low, 1000 * spread.median, 1000 * spread.high)

    return Row(
        what=what,
        unit=unit,
        ours=in_ms(pair.a),
        peer=(_PEER, in_ms(pair.b)),
        ratio=Spread(1 / pair.ratio.high, 1 / pair.ratio.median, 1 / pair.ratio.low),
        extra={"discarded": pair.discarded},
    )
