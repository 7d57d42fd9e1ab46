"""Choosers: plain functions from a `Choice` to a partition id, and what makes one of others.

They are put together by calling each other; `ComposedPartitioner` asks the outermost::

    chooser = shuffle_sharded(4, near_rack("eu-1a", least_loaded(), spill=50))
"""

from kafka_partition_events.partitioners.choosers.choice import Choice, Chooser
from kafka_partition_events.partitioners.choosers.loads import least_loaded
from kafka_partition_events.partitioners.choosers.metrics import MetricChooser, MetricStats, by_metric
from kafka_partition_events.partitioners.choosers.racks import near_rack
from kafka_partition_events.partitioners.choosers.shards import shuffle_sharded
from kafka_partition_events.partitioners.choosers.weights import evenly, weighted

__all__ = [
    "Choice",
    "Chooser",
    "MetricChooser",
    "MetricStats",
    "by_metric",
    "evenly",
    "least_loaded",
    "near_rack",
    "shuffle_sharded",
    "weighted",
]
