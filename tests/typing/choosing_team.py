"""Choosers as application teams compose and write them; ``mypy --strict`` must accept all of it."""

from collections.abc import Mapping

from kafka_partition_events.partitioners.choosers import (
    Choice,
    Chooser,
    MetricStats,
    by_metric,
    evenly,
    least_loaded,
    near_rack,
    shuffle_sharded,
    weighted,
)
from kafka_partition_events.partitioners.composed import ComposedPartitioner


def without(place: int, then: Chooser) -> Chooser:
    def choose(choice: Choice) -> int:
        rest = tuple(other for other in choice.places if other != place)
        return then(choice.among(rest)) if rest else then(choice)

    return choose


def newest_rack(choice: Choice) -> int:
    return max(choice.places, key=lambda place: choice.rack(place) or "")


def lag(topic: str) -> Mapping[int, float]:
    return {0: 12, 1: 0.5} if topic == "orders" else {}


def compose() -> tuple[ComposedPartitioner, MetricStats]:
    measured = by_metric(lag, otherwise=weighted({1: 2, 2: 0.5}, by="broker"))
    chooser: Chooser = shuffle_sharded(4, near_rack("a", without(3, measured), spill=50))
    ComposedPartitioner(newest_rack, keyed="reroute")
    ComposedPartitioner(least_loaded())
    ComposedPartitioner(evenly(), hash_name="crc32")
    return ComposedPartitioner(chooser, keys="chooser"), measured.stats
