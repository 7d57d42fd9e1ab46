"""What ``kpe watch --output jsonl`` has written, to be replayed to a listener or to a poller."""

import asyncio
import inspect
import os
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from attrs import evolve, frozen

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.events.codec import CodecError
from kafka_partition_events.events.event_json import EVENT_KINDS, decode_event
from kafka_partition_events.events.snapshot_json import decode_snapshot
from kafka_partition_events.json_text import json_in
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import apply
from kafka_partition_events.metadata.events import Event, MetadataRecovered, MetadataUnavailable
from kafka_partition_events.metadata.listener import PartitionChangeListener
from kafka_partition_events.metadata.reconcile import REWOUND, Memory, reconcile
from kafka_partition_events.testing.scripted import ScriptedSource, Step, observe

POLL_INTERVAL_S = 30.0
"""How far apart, by its own clock, a poller must ask for `Recording.steps`."""
_MOST_FAILURES = 10_000
"""Of an outage that lasts longer no more steps are made: that is three days."""


@frozen(kw_only=True)
class Recording:
    """A recorded story.

    Attributes:
        start: The snapshot before the first event.
        events: The events; each ``observed_at`` is 0.
        unknown: How many more events there are, of kinds that this version does not know.
    """

    start: Cluster
    events: tuple[Event, ...]
    unknown: int = 0

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of events, as ``kpe watch --output jsonl`` writes it. A torn last line is passed over.

        The first line may be a snapshot, as ``kpe snapshot`` writes it, that the events follow on from.

        Raises:
            CodecError: a line is no event, or there is none; the message names it.
            OSError: the file can't be read.
        """
        start, events, unknown = None, [], 0
        with Path(path).open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    document = json_in(line)
                    if start is None and _is_snapshot(document):
                        start = decode_snapshot(document).cluster
                        continue
                    start = EMPTY if start is None else start
                    if _is_unknown(document):
                        unknown += 1
                    else:
                        events.append(decode_event(document))
                except ValueError as error:  # JSON's and the codec's alike
                    raise CodecError(f"{path}, line {number}: {error}") from error
        if start is None:
            raise CodecError(f"{path} is no recording: there is no event in it")
        return cls(start=start, events=tuple(events), unknown=unknown)

    def play(self, listener: PartitionChangeListener) -> None:
        """Call the listener's method for each event, in order, in this thread; each ``async def`` one is run.

        `on_partitions_change` is not called: it comes from a poller, so give one the `source`.
        """
        for event in self.events:
            if inspect.iscoroutine(hook := event.deliver(listener)):
                asyncio.run(hook)

    def steps(self) -> tuple[Step, ...]:
        """Return the answers and failures by which a poller finds the same changes again.

        There is one step for each poll, `POLL_INTERVAL_S` apart by the poller's clock; polls that told
        nothing are left out. What the staleness gate believes after several answers only, a topic that is
        gone say, is answered so often. What the gate refused for good, what partitioners and producers told
        and how old a snapshot got are not in any answer.

        Raises:
            CodecError: an event is about a topic or a partition that there is not.
        """
        script = _Script()
        if self.start.nodes:
            script.show(self.start)
        cluster = self.start
        # Of one generation, what led to it is told first: failures and recoveries come behind that snapshot.
        for _, told in groupby(self.events, key=lambda event: event.generation):
            before, events = cluster, tuple(told)
            try:
                cluster = apply(before, events)
            except LookupError as error:
                raise CodecError(
                    f"the events do not follow from the snapshot: there is no {error}"
                ) from error
            if cluster.nodes and cluster != before:
                script.show(cluster)
            for event in events:
                script.follow(event)
        return script.finished()

    def source(self) -> ScriptedSource:
        """Return a source that plays `steps`, for a poller that is to live through the story."""
        return ScriptedSource(*self.steps())


class _Script:
    """Steps in the making, and what a poller believes after them."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._believed = EMPTY
        self._memory = Memory()
        self._now = 0.0
        self._failure: MetadataFetchError | None = None
        self._recovered = False  # and the answer that ended the outage is still to come

    def show(self, cluster: Cluster) -> None:
        """Answer with a snapshot, as often as the staleness gate wants to see it."""
        answer = observe(cluster.by_topic, cluster.nodes.values(), cluster_id=cluster.cluster_id)
        for _ in range(int(REWOUND.answers)):  # at this interval no rule of the gate wants more
            self._add(answer)
            seen = evolve(answer, started_at=self._now)
            outcome = reconcile(self._believed, seen, self._memory, self._now)
            self._believed, self._memory = outcome.cluster, outcome.memory
            if self._believed == cluster:
                break
        self._recovered = False

    def follow(self, event: Event) -> None:
        """Fail, or stop failing, if the event tells so."""
        if isinstance(event, MetadataUnavailable):
            self._settle()
            self._failure = MetadataFetchError(event.error)
            self._add(self._failure)
        elif isinstance(event, MetadataRecovered) and self._failure is not None:
            for _ in range(min(event.attempts - 1, _MOST_FAILURES)):
                self._add(self._failure)
            self._failure, self._recovered = None, True

    def finished(self) -> tuple[Step, ...]:
        """Return the steps."""
        self._settle()
        return tuple(self._steps)

    def _settle(self) -> None:
        if self._recovered:  # and nothing had changed
            self.show(self._believed)

    def _add(self, step: Step) -> None:
        self._now += POLL_INTERVAL_S
        self._steps.append(step)


def _is_snapshot(document: Any) -> bool:
    return isinstance(document, dict) and "format" in document


def _is_unknown(document: Any) -> bool:
    kind = document.get("kind") if isinstance(document, dict) else None
    return isinstance(kind, str) and kind not in EVENT_KINDS
