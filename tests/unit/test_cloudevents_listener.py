"""The base of listeners that pass events on as CloudEvents, and the facade that they are imported from."""

from datetime import timedelta

import pytest
from attrs import evolve
from cloudevents.core.v1.event import CloudEvent

from kafka_partition_events.events.names import name_of
from kafka_partition_events.listeners import CloudEventsListener, to_cloudevent
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Node
from kafka_partition_events.testing import ManualClock
from tests.every_event import BEFORE, EVERY_EVENT, SEEN, STAMP


class Collecting(CloudEventsListener):
    """Keeps what it is handed."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.heard: list[tuple[ev.Event, CloudEvent]] = []

    def on_cloudevent(self, event: ev.Event, cloudevent: CloudEvent) -> None:
        self.heard.append((event, cloudevent))

    def gaps(self) -> list[bool]:
        data = [cloudevent.get_data() for _, cloudevent in self.heard]
        return [each["snapshot"]["gap"] for each in data if isinstance(each, dict)]


@pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
def test_each_event_comes_with_its_cloudevent(event: ev.Event) -> None:
    listener = Collecting(observer="a", clock=ManualClock(wall=SEEN))
    event.deliver(listener)
    ((heard, cloudevent),) = listener.heard
    blind = isinstance(event, ev.MetadataRecovered)
    made = to_cloudevent(event, observer="a", recorded_at=SEEN, blind=blind)
    assert heard is event
    assert cloudevent.get_attributes() == made.get_attributes()
    assert cloudevent.get_data() == made.get_data()


def test_it_says_when_the_event_was_recorded() -> None:
    clock = ManualClock(wall=SEEN)
    listener = Collecting(clock=clock)
    clock.advance(0.5)
    listener.on_event(EVERY_EVENT[0])
    assert listener.heard[0][1].get_extension("recordedtime") == "2026-11-20T10:00:10.500000Z"


def test_what_one_look_found_after_an_outage_happened_within_the_gap_and_later_events_did_not() -> None:
    listener = Collecting()
    recovered = ev.MetadataRecovered(attempts=2, blind_s=10.0, **STAMP)
    found = ev.BrokerRemoved(old=Node(1, "b", 9092), **STAMP)
    for event in (evolve(found, previous_at=BEFORE - timedelta(seconds=1)), recovered, found):
        event.deliver(listener)
    evolve(found, previous_at=SEEN).deliver(listener)
    evolve(found, previous_at=None).deliver(listener)
    assert listener.gaps() == [False, True, True, False, False]
