import gc
import inspect
import re
from typing import Any

import pytest

from kafka_partition_events.events.names import name_of
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import PartitionInfo, TopicInfo
from kafka_partition_events.metadata.listener import PartitionChangeListener
from tests.every_event import EVERY_EVENT

TOPIC = TopicInfo("orders", (PartitionInfo("orders", 0, 1, (1, 2), (1, 2)),))
GROWN = TopicInfo("orders", (*TOPIC.partitions, PartitionInfo("orders", 1, 2)))


class Calls(PartitionChangeListener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            self.names.append(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
def test_an_event_arrives_at_its_own_method_and_by_default_at_on_event(event: ev.Event) -> None:
    listener = Calls()
    event.deliver(listener)
    assert listener.names == [f"on_{event.kind}", "on_event"]


@pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
def test_an_overridden_method_keeps_its_event_from_on_event(event: ev.Event) -> None:
    heard: list[ev.Event] = []
    hook = {f"on_{event.kind}": lambda _, event: heard.append(event)}
    event.deliver(type("Own", (PartitionChangeListener,), hook)())
    assert heard == [event]


def test_an_event_of_a_later_version_arrives_at_on_event() -> None:
    listener = Calls()
    ev.Event().deliver(listener)
    assert listener.names == ["on_event"]


def test_kinds_are_the_class_names_in_snake_case_and_unique() -> None:
    kinds = [cls.kind for cls in ev.EVENT_TYPES]
    assert len(set(kinds)) == len(kinds)
    assert kinds == [re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower() for cls in ev.EVENT_TYPES]


def test_every_concrete_event_is_listed() -> None:
    def leaves(cls: type[ev.Event]) -> set[type[ev.Event]]:
        below = {c for c in cls.__subclasses__() if c.__module__ == ev.__name__}
        return set().union(*map(leaves, below)) if below else {cls}

    gc.collect()  # attrs makes each class anew, with slots; what it was made of may be there still
    assert set(ev.EVENT_TYPES) == leaves(ev.Event)


def test_every_event_has_a_listener_method_and_no_method_is_without_an_event() -> None:
    hooks = set(re.findall(r"def (on_\w+)", inspect.getsource(PartitionChangeListener)))
    others = {"on_event", "on_partitions_change", "on_settled"}
    assert hooks == {f"on_{cls.kind}" for cls in ev.EVENT_TYPES} | others


def test_what_a_partition_event_can_tell() -> None:
    old = PartitionInfo("orders", 0, 1, (1, 2, 3), (1, 2), 4)
    new = PartitionInfo("orders", 0, 1, (1, 2, 3), (1, 3), 5)
    assert not ev.LeaderChanged(topic="orders", partition=0, old=old, new=new).moved
    assert ev.PartitionsAdded(topic="orders", old=TOPIC, new=GROWN).added == GROWN.partitions[1:]
