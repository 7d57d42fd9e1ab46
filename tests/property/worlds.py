"""Arbitrary observations and snapshots of a small world, so that what is drawn twice often collides."""

from hypothesis import strategies as st

from kafka_partition_events.metadata.cluster import Cluster, Node, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.source import Observation
from kafka_partition_events.testing.scripted import cluster_of

NAMES = ("a", "b", "c")
IDS = st.sampled_from(["A", "B", "C", None])
EPOCHS = st.sampled_from([None, 0, 1, 2, 3])
BROKERS = st.lists(st.sampled_from([1, 2, 3, 8]), unique=True, max_size=4)
LEADERS = st.sampled_from([1, 2, 3, 8, None])
SETS = st.sampled_from([(), (1,), (1, 2), (2, 1), (3, 2, 1)])


@st.composite
def topic_infos(draw: st.DrawFn, name: str, *, complete: bool = True) -> TopicInfo:
    count = draw(st.integers(1 if complete else 0, 4))
    numbers = range(count) if complete else draw(st.lists(st.integers(0, 4), max_size=4))
    partitions = tuple(
        PartitionInfo(name, n, draw(LEADERS), draw(SETS), draw(SETS), draw(EPOCHS)) for n in numbers
    )
    return TopicInfo(name, partitions, draw(IDS))


@st.composite
def snapshots(draw: st.DrawFn) -> Cluster:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    racks = st.sampled_from([None, "r1", "r2"])
    nodes = [Node(b, f"h{draw(st.integers(0, 1))}", 9092, draw(racks)) for b in draw(BROKERS)]
    topics = {name: draw(topic_infos(name)) for name in names}
    return cluster_of(topics, nodes, generation=draw(st.integers(1, 5)))


@st.composite
def observations(draw: st.DrawFn, *, honest: bool = False) -> Observation:
    """Draw an answer; an honest one has brokers, whole topics, one cluster id and a time that goes on."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    brokers = draw(BROKERS.filter(bool) if honest else BROKERS)
    failed = [name for name in NAMES if name not in names and draw(st.booleans())]
    errors = st.sampled_from(["UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"])
    requested = st.none() if honest else st.none() | st.frozensets(st.sampled_from(NAMES))
    return Observation(
        nodes=tuple(Node(b, "h", 9092) for b in brokers),
        topics={name: draw(topic_infos(name, complete=honest or draw(st.booleans()))) for name in names},
        errors={name: draw(errors) for name in failed},
        requested=draw(requested),
        cluster_id="c" if honest else draw(st.sampled_from(["c", "c", None, "other"])),
        answered_by=draw(st.sampled_from([1, 2, 3, None])),
    )
