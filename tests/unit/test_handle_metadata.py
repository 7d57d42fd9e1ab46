"""How a producer's handle learns of partitions: what it is made to ask for, and what not. No broker."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_partition_events import MetadataFetchError, TopicInfo
from kafka_partition_events.clients.confluent import handle_metadata as module
from kafka_partition_events.clients.confluent.handle_metadata import FEW, HandleMetadata
from kafka_partition_events.testing.scripted import cluster_of

AT_LEISURE = float("inf")
EVERYTHING = {f"t{number}" for number in range(100)}


class Handle:
    """Stands for librdkafka's producer: it knows what it was made to ask for."""

    def __init__(self) -> None:
        self.there: dict[str, int] = {}
        self.asked: list[str | None] = []

    def list_topics(self, topic: str | None, timeout: float) -> Any:
        self.asked.append(topic)
        names = self.there if topic is None else [topic]
        known = {
            name: SimpleNamespace(error=None, partitions=range(self.there.get(name, 0))) for name in names
        }
        return SimpleNamespace(topics=known)

    def take_asked(self) -> list[str | None]:
        """Return what was asked for since this was called last."""
        asked, self.asked = self.asked, []
        return asked


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "Producer", Handle)
    return Handle()


def topics(handle: Handle, **partitions: int) -> dict[str, TopicInfo]:
    """Let the cluster have topics with so many partitions; return what an answer tells of them."""
    handle.there |= partitions
    return dict(cluster_of({name: [1] * count for name, count in partitions.items()}).by_topic)


def named(numbers: Iterable[int]) -> dict[str, int]:
    return {f"t{number}": 1 for number in numbers}


@pytest.mark.parametrize(
    ("written", "there", "asked"),
    [(EVERYTHING, FEW, list(named(range(FEW)))), (EVERYTHING, FEW + 1, [None]), ({"t1"}, 20, ["t1"])],
    ids=["a few by name", "many together", "only what is written"],
)
def test_topics_that_are_new_are_asked_for(
    written: set[str], there: int, asked: list[str | None], handle: Any
) -> None:
    HandleMetadata(handle, written).ensure_known(topics(handle, **named(range(there))), AT_LEISURE)
    assert handle.asked == asked


def test_only_what_is_new_or_has_grown_is_asked_for(handle: Any) -> None:
    one = HandleMetadata(handle, EVERYTHING)
    one.ensure_known(topics(handle, **named(range(FEW + 1))), AT_LEISURE)
    handle.take_asked()
    for known, asked in (
        (topics(handle, **named(range(FEW + 1))), []),
        (topics(handle, **named(range(FEW + 2))), [f"t{FEW + 1}"]),
        (topics(handle, t0=3, t1=1), ["t0"]),
    ):
        one.ensure_known(known, AT_LEISURE)
        assert handle.take_asked() == asked


def test_what_a_record_waits_for_is_asked_for_though_no_answer_has_it(handle: Any) -> None:
    """By that it comes into being, where brokers and producer allow it."""
    HandleMetadata(handle, set()).ask_for("new", AT_LEISURE)
    assert handle.asked == ["new"]


def test_who_was_released_touches_the_handle_no_more(handle: Any) -> None:
    one = HandleMetadata(handle, EVERYTHING)
    one.release()
    with pytest.raises(MetadataFetchError, match="closed"):
        one.ensure_known(topics(handle, t0=1), AT_LEISURE)
    assert handle.asked == []


def test_a_thread_that_produces_may_let_it_learn_of_a_topic_while_the_poller_does(handle: Any) -> None:
    class Written:
        """The other thread comes when the first one looks in here."""

        meanwhile: dict[str, TopicInfo] | None = None

        def __contains__(self, _name: object) -> bool:
            if (other := self.meanwhile) is not None:
                self.meanwhile = None
                one.ensure_known(other, AT_LEISURE)
            return True

    written = Written()
    one = HandleMetadata(handle, written)
    one.ensure_known(topics(handle, t0=1), AT_LEISURE)
    written.meanwhile = topics(handle, t1=1)
    one.ensure_known(topics(handle, t0=1), AT_LEISURE)
    one.ensure_known(topics(handle, t0=1, t1=1), AT_LEISURE)
    assert handle.asked == ["t0", "t1"]
