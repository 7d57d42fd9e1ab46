"""A metadata source that follows a script, and short words for observations and snapshots.

In both `observe` and `cluster_of` a topic is the list of its partitions' leaders, None for offline::

    source = ScriptedSource(
        observe({"orders": [1, 2, 3]}),
        MetadataFetchError("the network is down"),
        observe({"orders": [1, None, 3]}, brokers=[1, 3]),
    )

What else there is to say about a partition or a topic is said by a mapping in its place::

    observe({"orders": {"id": "A", "partitions": [{"leader": 1, "epoch": 7, "isr": [1, 3]}, 2, None]}})
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from attrs import evolve

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation


class PartitionSpec(TypedDict, total=False):
    """A partition in words; what is left out is unknown or empty, ``id`` is its place in the list."""

    id: int
    leader: int | None
    epoch: int | None
    replicas: Sequence[int]
    isr: Sequence[int]


class TopicSpec(TypedDict, total=False):
    """A topic in words."""

    id: str | None
    partitions: Sequence[int | PartitionSpec | None]


TopicWords = TopicInfo | TopicSpec | Sequence[int | PartitionSpec | None]
"""A topic, or its partitions: each a leader's broker id, None (offline) or a `PartitionSpec`."""


def observe(
    topics: Mapping[str, TopicWords] | None = None,
    brokers: Iterable[int | Node] | None = None,
    *,
    cluster_id: str | None = "test",
    errors: Mapping[str, str] | None = None,
    requested: Iterable[str] | None = None,
    answered_by: int | None = None,
) -> Observation:
    """Return one raw answer.

    Args:
        topics: The topics by name.
        brokers: The brokers that the answer lists; None lists those that lead or hold a replica.
        cluster_id: Kafka's cluster id.
        errors: Topics that came with an error, with the error's name.
        requested: The topics that were asked for; None leaves that to the source that is asked.
        answered_by: Id of the answering broker.
    """
    infos = {name: _topic(name, words) for name, words in (topics or {}).items()}
    nodes = _nodes(brokers, infos)
    return Observation(
        nodes=nodes,
        topics=infos,
        errors=dict(errors or {}),
        requested=None if requested is None else frozenset(requested),
        cluster_id=cluster_id,
        answered_by=answered_by,
    )


def cluster_of(
    topics: Mapping[str, TopicWords] | None = None,
    brokers: Iterable[int | Node] | None = None,
    *,
    cluster_id: str | None = "test",
    generation: int = 1,
) -> Cluster:
    """Return a snapshot. A partition whose leader is not among the brokers is offline, as everywhere.

    Args:
        topics: The topics by name.
        brokers: The live brokers; None takes those that lead or hold a replica.
        cluster_id: Kafka's cluster id.
        generation: The snapshot's generation.
    """
    infos = {name: _topic(name, words) for name, words in (topics or {}).items()}
    nodes = _nodes(brokers, infos)
    alive = {node.id for node in nodes}
    listed = [
        evolve(
            info,
            partitions=tuple(p if p.leader in alive else evolve(p, leader=None) for p in info.partitions),
        )
        for info in infos.values()
    ]
    return Cluster(nodes=nodes, by_topic=listed, cluster_id=cluster_id, generation=generation)


def _topic(name: str, words: TopicWords) -> TopicInfo:
    if isinstance(words, TopicInfo):
        return words
    if isinstance(words, Mapping):
        _check_words(words, TopicSpec, f"topic {name}")
        partitions, topic_id = words.get("partitions", ()), words.get("id")
    else:
        partitions, topic_id = words, None
    return TopicInfo(name, tuple(_partition(name, i, p) for i, p in enumerate(partitions)), topic_id)


def _partition(topic: str, place: int, words: int | PartitionSpec | None) -> PartitionInfo:
    if words is None or isinstance(words, int):
        return PartitionInfo(topic, place, words)
    _check_words(words, PartitionSpec, f"partition {place} of {topic}")
    return PartitionInfo(
        topic=topic,
        partition=words.get("id", place),
        leader=words.get("leader"),
        replicas=tuple(words.get("replicas", ())),
        isr=tuple(words.get("isr", ())),
        leader_epoch=words.get("epoch"),
    )


def _check_words(words: Mapping[str, Any], allowed: type, what: str) -> None:
    if unknown := words.keys() - allowed.__annotations__.keys():
        raise ValueError(f"{what}: {sorted(unknown)} is not one of {sorted(allowed.__annotations__)}")


def _nodes(brokers: Iterable[int | Node] | None, infos: Mapping[str, TopicInfo]) -> tuple[Node, ...]:
    if brokers is None:
        named = {b for info in infos.values() for p in info.partitions for b in (p.leader, *p.replicas)}
        brokers = sorted(b for b in named if b is not None)
    return tuple(Node(b, f"broker-{b}", 9092) if isinstance(b, int) else b for b in brokers)


class Hang:
    """A step of a script: a fetch that does not return until a test releases it."""

    def __init__(self, then: "Observation | Exception | None" = None, *, limit: float = 60.0) -> None:
        """Make the step.

        Args:
            then: What the fetch yields once released; by default it fails.
            limit: Real seconds after which it is released by itself, so that a failed test ends.
        """
        self.then = MetadataFetchError("the fetch hung until it was released") if then is None else then
        self._limit = limit
        self._entered = threading.Event()
        self._released = threading.Event()

    def wait_entered(self, timeout: float = 10.0) -> None:
        """Wait, in real time, until a fetch hangs here.

        Raises:
            TimeoutError: none did.
        """
        if not self._entered.wait(timeout):
            raise TimeoutError("no fetch came to this hang")

    def release(self) -> None:
        """Let the fetch return; one that comes later does not hang."""
        self._released.set()

    def pass_through(self) -> "Observation | Exception":
        """Hang, then return what follows."""
        self._entered.set()
        self._released.wait(self._limit)
        return self.then


Step = Observation | Exception | Hang


class ScriptedSource:
    """A `MetadataSource` that plays its steps in order, and the last one again and again. Thread-safe.

    An observation that leaves open what was asked for (``requested``) takes that from the question; asked for
    some topics, it answers about no others.
    """

    def __init__(self, *steps: Step) -> None:
        """Make a source.

        Args:
            *steps: Answers, errors to raise, and hangs.
        """
        self.asked: list[frozenset[str] | None] = []
        """The ``topics`` of each fetch so far."""
        self.closed = 0
        """How often `close` was called."""
        self._steps = list(steps)
        self._next = 0
        self._lock = threading.Lock()

    def then(self, *steps: Step) -> None:
        """Add steps to the end of the script."""
        with self._lock:
            self._steps.extend(steps)

    def fetch(self, topics: frozenset[str] | None, /, *, timeout: float) -> Observation:
        """Play the next step."""
        with self._lock:
            self.asked.append(topics)
            if not self._steps:
                raise MetadataFetchError("the script of this ScriptedSource is empty: give it a step")
            step = self._steps[min(self._next, len(self._steps) - 1)]
            self._next = min(self._next + 1, len(self._steps))
        answer = step.pass_through() if isinstance(step, Hang) else step
        if isinstance(answer, Exception):
            raise answer.with_traceback(None)  # that would grow with each time it is raised
        return _answer_to(topics, answer)

    def close(self) -> None:
        """Count the call."""
        with self._lock:
            self.closed += 1


def _answer_to(topics: frozenset[str] | None, answer: Observation) -> Observation:
    if topics is None or answer.requested is not None:
        return answer
    return evolve(
        answer,
        requested=topics,
        topics={name: info for name, info in answer.topics.items() if name in topics},
        errors={name: error for name, error in answer.errors.items() if name in topics},
    )
