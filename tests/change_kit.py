"""`kpe change` without Kafka: a client at a story, and a clock that passes while somebody waits."""

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import define, field

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.codec import encode
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Command, Given
from kafka_partition_events.errors import ControlTopicError, MetadataFetchError
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import TopicSpec, observe
from tests.control_kit import CLUSTER, TOPIC, TOPIC_ID, Story

AT = ["-b", "x:1"]


class PassingClock(ManualClock):
    """Waits by letting the time pass at once."""

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        assert timeout is not None
        self.advance(timeout)


@define
class StoryClient:
    """Control topics with a tracker that takes commands up, unless it is told not to.

    Attributes:
        story: What holds.
        answers: Whether a tracker is there.
        readers: The groups that read the topic; None: nobody may ask.
        unseen: Those that no broker describes.
        news: What happens before each read after the first one, in turn.
    """

    story: Story = field(factory=Story)
    answers: bool = True
    readers: tuple[Group, ...] | None = ()
    unseen: tuple[str, ...] = ()
    news: Iterator[Callable[[], Any]] = field(factory=lambda: iter(()))
    sent: list[Command] = field(factory=list)
    topic_is_compacted: bool | None = False
    reads: int = 0
    closed: bool = False
    opened: tuple[Mapping[str, str], str] | None = None

    @property
    def ledger(self) -> Ledger:
        return self.story.ledger

    def read(self, topics: Collection[str], timeout: float = 15.0) -> None:
        self.reads += 1
        if self.reads > 1:
            next(self.news, lambda: None)()

    def send(self, command: Command) -> Given:
        encode(command)  # which refuses what nobody would read
        given = Given(command, len(self.sent), self.story.now_ms + 1)
        self.sent.append(command)
        self.story.now_ms += 1
        if self.answers:
            self.story.deliver(command, given.at_ms, given.offset)
        return given

    def groups(self, topic: str, count: int) -> Mapping[str, Group | None]:
        if self.readers is None:
            raise MetadataFetchError("can't look at consumer groups: not for us")
        return {group.group_id: group for group in self.readers} | dict.fromkeys(self.unseen)

    def is_compacted(self, topic: str) -> bool | None:
        return self.topic_is_compacted

    def close(self) -> None:
        self.closed = True

    # -- running commands ------------------------------------------------------------------------------

    def kpe(self, *arguments: str, partitions: int = 6) -> int:
        """Run a command that ends in a pipe; return its exit code."""
        source = ScriptedSource(_observed(partitions))

        def opened(config: Mapping[str, str], prefix: str) -> Any:
            self.opened = config, prefix
            return self

        clock = PassingClock(wall=datetime.fromtimestamp(self.story.now_ms / 1_000, UTC))
        services = Services(open_source=lambda _config: source, open_client=opened, clock=clock)
        self.reads = 0
        return run([*arguments[:2], *AT, *arguments[2:]], services)


def _observed(partitions: int) -> Observation:
    topics: dict[str, TopicSpec] = {
        TOPIC: {"partitions": [1] * partitions, "id": TOPIC_ID},
        "__consumer_offsets": {"partitions": [1]},
    }
    return observe(topics, cluster_id=CLUSTER)


def unreachable() -> None:
    """What a read comes to when the control topics can't be reached."""
    raise ControlTopicError("can't read the control topics: nobody is there")


def documents(out: str) -> list[dict[str, Any]]:
    """Return what was written, one JSON object a line."""
    return [json.loads(line) for line in out.splitlines()]
