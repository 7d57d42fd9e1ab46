"""KIP-34's cap: how many partitions a producer affords, which ones, and that they stay the same."""

import pytest

from kafka_partition_events import BufferBudget, ConfigurationError
from kafka_partition_events.routing.table import compile_routes
from kafka_partition_events.testing.scripted import cluster_of


def test_memory_is_shared_evenly_and_what_small_topics_leave_goes_to_large_ones() -> None:
    budget = BufferBudget(buffer_memory=20, batch_size=1, instance_id="a")
    admission = budget.admit({"small": 2, "large": 100, "larger": 200})
    assert {name: share.count for name, share in admission.items()} == {"large": 9, "larger": 9}


def test_every_topic_gets_one_partition_even_beyond_the_budget() -> None:
    budget = BufferBudget(buffer_memory=2, batch_size=1, instance_id="a")
    admission = budget.admit({"a": 5, "b": 5, "c": 5})
    assert [admission[name].count for name in "abc"] == [1, 1, 1]


def test_internal_topics_cost_nothing() -> None:
    budget = BufferBudget(buffer_memory=4, batch_size=1, instance_id="a")
    routes = compile_routes(cluster_of({"__consumer_offsets": [1] * 50, "orders": [1] * 5}), budget)
    admitted = {name: len(route.admitted) for name, route in routes.items()}
    assert admitted == {"__consumer_offsets": 50, "orders": 4}


def chosen(**options: str) -> tuple[int, ...]:
    """Return which 4 of 12 partitions an instance chooses."""
    share = BufferBudget(max_partitions={"orders": 4}, **options).admit({"orders": 12})["orders"]  # type: ignore[arg-type]
    return share.among(range(12))


def test_one_instance_chooses_the_same_after_every_restart() -> None:
    assert chosen(instance_id="pod-7") == chosen(instance_id="pod-7")


def test_without_an_instance_id_a_restart_chooses_anew() -> None:
    """20 of 495 sets are drawn; that ten or less of them differ has a probability below 1e-13."""
    assert len({chosen() for _ in range(20)}) > 10


def test_a_fleet_covers_every_partition_evenly() -> None:
    """200 instances x 4 of 12: 66.7 on average; 5 standard deviations (6.7 each) are 33 either way."""
    uses = [0] * 12
    for instance in range(200):
        for partition in chosen(instance_id=f"pod-{instance}"):
            uses[partition] += 1
    assert min(uses) > 33
    assert max(uses) < 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"buffer_memory": 0, "batch_size": 1}, "buffer_memory must be a whole number"),
        ({"buffer_memory": 1, "batch_size": -1}, "batch_size must be a whole number"),
        ({"buffer_memory": True, "batch_size": 1}, "buffer_memory"),
        ({"buffer_memory": 5}, "given together"),
        ({"buffer_memory": 5, "batch_size": 10}, "not even one batch"),
        ({"max_partitions": {"orders": 0}}, r"max_partitions\['orders'\]"),
    ],
)
def test_impossible_budgets_are_refused_by_the_keys_name(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BufferBudget(**arguments)  # type: ignore[arg-type]
