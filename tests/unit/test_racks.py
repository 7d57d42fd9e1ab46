"""A source that falls back to a poorer answer must not make racks come and go."""

from kafka_partition_events import MetadataPoller, Node
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe

RICH = observe({"t": [1]}, brokers=[Node(1, "one", 9092, "r1")])
POOR = observe({"t": [1]}, brokers=[Node(1, "one", 9092)])
MOVED = observe({"t": [1]}, brokers=[Node(1, "one", 9092, "r2")])


def test_an_answer_that_tells_no_racks_takes_none_away() -> None:
    poller = MetadataPoller(ScriptedSource(RICH, POOR, RICH, MOVED))
    poller.poll_once()
    assert poller.poll_once() == ()
    assert poller.poll_once() == ()
    (changed,) = poller.poll_once()
    assert changed.kind == "broker_changed"
    poller.close()
