"""Better placements: what helps a topic, and where its replicas would be."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.cli.doctor.reassignment import (
    Placement,
    Remedy,
    advise,
    better_placement,
    most_blocked,
    reassignment_json,
)
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo
from tests.replicas_kit import Rows, around, topic, world


@pytest.mark.parametrize(
    ("rows", "brokers", "remedy", "needed"),
    [
        (around(24, 3, 3), 3, Remedy.BROKERS, 4),
        (around(2, 3, 3), 3, Remedy.BROKERS, 6),  # with two partitions nobody may have both
        ([[1, 2, 3]], 3, Remedy.BROKERS, 4),  # and more partitions then
        ([[1, 2, 3]], 6, Remedy.PARTITIONS, 2),
        ([[1, 2, 3]], 4, Remedy.PARTITIONS, 4),
        ([[1], [1]], 1, Remedy.BROKERS, 2),
        (around(24, 3, 3), 6, Remedy.MOVE, None),
        (around(24, 3, 3), 4, Remedy.MOVE, None),
        ([[1, 2], [1, 2]], 4, Remedy.MOVE, None),
        (around(24, 4, 3), 3, Remedy.RETURN, None),
        (around(24, 6, 3), 6, Remedy.IN_SYNC, None),
    ],
)
def test_what_helps(rows: Rows, brokers: int, remedy: Remedy, needed: int | None) -> None:
    (advice,) = advise(world(topic(rows), brokers=brokers), ["orders"])
    assert (advice.remedy, advice.needed) == (remedy, needed)
    assert (advice.placement is not None) == (remedy is Remedy.MOVE)


@pytest.mark.parametrize("brokers", range(1, 9))
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_so_many_are_needed_and_no_fewer(brokers: int, factor: int, count: int) -> None:
    if factor > brokers:
        return
    ones = [list(range(1, factor + 1))] * count
    (advice,) = advise(world(topic(ones), brokers=brokers), ["orders"])
    if advice.remedy is Remedy.PARTITIONS:
        assert advice.needed is not None
        assert best(advice.needed, brokers, factor) < advice.needed
        assert best(advice.needed - 1, brokers, factor) == advice.needed - 1
    elif advice.remedy is Remedy.BROKERS and count > 1:
        assert advice.needed is not None
        assert best(count, advice.needed, factor) < count
        assert best(count, advice.needed - 1, factor) == count
    elif advice.remedy is Remedy.MOVE:
        assert advice.placement is not None
        assert most_blocked(advice.placement.new) == best(count, brokers, factor) < count


def best(count: int, brokers: int, factor: int) -> int:
    return -(-count * factor // brokers)


def test_six_brokers_of_which_three_have_all_end_with_half_each() -> None:
    placement = moved(topic(around(24, 3, 3)), world(topic(around(24, 3, 3)), brokers=6))
    assert load(placement) == dict.fromkeys(range(1, 7), 12)
    assert Counter(row[0] for row in placement.new) == dict.fromkeys(range(1, 7), 4)
    assert placement.moved == 36  # and 36 stay


def test_racks_are_kept_apart_and_brought_apart() -> None:
    together = topic(around(12, 2, 2))
    placement = moved(together, world(together, brokers=4, racks="aabb"))
    assert load(placement) == dict.fromkeys(range(1, 5), 6)
    racks = "aabb"
    assert all(len({racks[b - 1] for b in row}) == 2 for row in placement.new)


def test_where_one_rack_has_one_broker_a_better_placement_would_give_up_racks() -> None:
    info = topic([[1, 2 + n % 3] for n in range(12)])
    assert advise(world(info, brokers=4, racks="abbb"), ["orders"])[0].remedy is Remedy.RACKS
    assert advise(world(info, brokers=4), ["orders"])[0].remedy is Remedy.MOVE


def test_topics_that_can_go_anywhere_go_to_different_brokers() -> None:
    topics = [topic([[1, 2], [1, 2]], f"t{number}") for number in range(30)]
    found = advise(world(*topics, brokers=8), [info.name for info in topics])
    total = Counter(b for advice in found if advice.placement for row in advice.placement.new for b in row)
    assert total == {1: 30, 2: 30} | dict.fromkeys(range(3, 9), 10)  # what need not move stays


def test_what_stays_is_no_part_of_the_plan() -> None:
    placement = Placement(topic="t", old=((1, 2), (1, 2)), new=((1, 2), (3, 2)))
    assert reassignment_json([placement]) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 1, "replicas": [3, 2]}],
    }
    assert reassignment_json([]) == {"version": 1, "partitions": []}


def moved(info: TopicInfo, cluster: Cluster) -> Placement:
    placement = better_placement(info, cluster)
    assert placement is not None
    return placement


def load(placement: Placement) -> dict[int, int]:
    return dict(Counter(broker for row in placement.new for broker in row))


@st.composite
def worlds(draw: st.DrawFn, *, uniform: bool = False) -> Cluster:
    brokers = draw(st.integers(1, 8))
    racks = draw(st.none() | st.text("abc", min_size=brokers, max_size=brokers))
    factor = draw(st.integers(1, min(3, brokers)))
    chosen = st.permutations(range(1, draw(st.integers(factor, brokers)) + 1))
    rows = draw(st.lists(chosen, min_size=1, max_size=20))
    sizes = st.just(factor) if uniform else st.integers(1, factor)
    return world(topic([row[: draw(sizes)] for row in rows]), brokers=brokers, racks=racks)


@given(worlds())
def test_no_proposal_is_worse_than_what_is(cluster: Cluster) -> None:
    info = cluster.by_topic["orders"]
    placement = better_placement(info, cluster)
    if placement is None:
        return
    assert most_blocked(placement.new) < most_blocked(placement.old)
    aware = all(node.rack for node in cluster.nodes.values())
    for old, new in zip(placement.old, placement.new, strict=True):
        assert len(old) == len(new) == len(set(new))
        assert set(new) <= cluster.nodes.keys()
        if aware:
            assert racks_of(new, cluster) >= racks_of(old, cluster)


def racks_of(row: tuple[int, ...], cluster: Cluster) -> int:
    return len({cluster.nodes[broker].rack for broker in row})


@given(worlds())
def test_without_racks_it_is_the_best_there_is_and_copies_no_more_than_it_must(cluster: Cluster) -> None:
    bare = Cluster(nodes=[node.__class__(node.id, node.host, 1) for node in cluster.nodes.values()])
    info = cluster.by_topic["orders"]
    total = Counter(broker for p in info.partitions for broker in p.replicas)
    share = -(-total.total() // len(bare.nodes))
    placement = better_placement(info, bare)
    excess = sum(max(0, count - share) for count in total.values())
    assert (placement is None) == (excess == 0)
    if placement is not None:
        assert most_blocked(placement.new) == share
        assert placement.moved == excess


@given(worlds(uniform=True))
def test_preferred_leaders_are_as_even_as_they_can_be(cluster: Cluster) -> None:
    bare = Cluster(nodes=[node.__class__(node.id, node.host, 1) for node in cluster.nodes.values()])
    placement = better_placement(cluster.by_topic["orders"], bare)
    if placement is not None:
        led = Counter(row[0] for row in placement.new)
        assert max(led.values()) == -(-len(placement.new) // len(bare.nodes))
