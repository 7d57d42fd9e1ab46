"""The cluster in numbers: what is counted, and when it is told."""

from datetime import UTC, datetime, timedelta

from attrs import evolve

from kafka_partition_events.listeners import to_cloudevent
from kafka_partition_events.metadata.cluster import Node
from kafka_partition_events.metadata.events import BrokerLoad, ClusterSummary, Event
from kafka_partition_events.observe.derived import SummaryListener, summary_of
from kafka_partition_events.testing.scripted import cluster_of
from tests.every_event import STAMP

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
FIVE = timedelta(minutes=5)
CLUSTER = cluster_of(
    {
        "orders": [
            {"leader": 1, "replicas": [1, 2], "isr": [1, 2]},
            {"leader": 1, "replicas": [2, 1], "isr": [1]},
            {"leader": None, "replicas": [3], "isr": []},
        ],
        "payments": [{"leader": 2, "replicas": [2, 3], "isr": [2]}],
    },
    brokers=[Node(1, "a", 9092, "r1"), Node(2, "b", 9092), Node(4, "d", 9092, "r4")],
    cluster_id="c-1",
)


def load(broker: int, leaders: int, replicas: int, offline: int = 0, rack: str | None = None) -> BrokerLoad:
    return BrokerLoad(broker=broker, rack=rack, leaders=leaders, replicas=replicas, offline_replicas=offline)


def test_it_counts_what_each_broker_has_to_do() -> None:
    summary = summary_of(CLUSTER, NOON, NOON + FIVE)
    assert summary.brokers == (
        load(1, leaders=2, replicas=2, rack="r1"),
        load(2, leaders=1, replicas=3),
        load(3, leaders=0, replicas=2, offline=2),  # not listed, so nobody serves them
        load(4, leaders=0, replicas=0, rack="r4"),
    )
    assert (summary.topics, summary.partitions, summary.offline) == (2, 4, 1)
    assert (summary.begin, summary.end) == (NOON, NOON + FIVE)


class Heard:
    """A listener of summaries, and what it emits."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.listener = SummaryListener(self.events.append, 300.0)

    def look(self, *seconds: float) -> list[str]:
        """Tell of good looks so many seconds after noon; return which periods are told."""
        self.events.clear()
        for second in seconds:
            self.listener.on_settled(CLUSTER, NOON + timedelta(seconds=second))
        return [f"{e.begin:%H:%M:%S}-{e.end:%H:%M:%S}" for e in self.events if isinstance(e, ClusterSummary)]


def test_each_period_on_the_clock_is_told_once_at_the_first_look_in_it() -> None:
    heard = Heard()
    assert heard.look(7, 17, 299.9) == ["12:00:00-12:05:00"]
    assert heard.look(300, 310, 600.1) == ["12:05:00-12:10:00", "12:10:00-12:15:00"]


def test_a_period_in_which_nobody_looked_is_not_told() -> None:
    heard = Heard()
    # After a failed look, the last good one is told again and again.
    assert heard.look(7, 7, 7, 7 + 3600) == ["12:00:00-12:05:00", "13:00:00-13:05:00"]


def test_a_restart_within_the_period_tells_it_again_and_two_observers_agree_on_the_id() -> None:
    one, other = Heard(), Heard()
    one.look(7)
    other.look(140)
    stamps = ({**STAMP, "sequence": 3}, {**STAMP, "sequence": 99, "wall_time": NOON})
    first, second = (
        to_cloudevent(evolve(heard.events[0], **stamp), observer=name)
        for heard, stamp, name in zip((one, other), stamps, "ab", strict=True)
    )
    assert first.get_id() == second.get_id()
    later = Heard()
    later.look(300)
    assert to_cloudevent(evolve(later.events[0], **STAMP)).get_id() != first.get_id()
