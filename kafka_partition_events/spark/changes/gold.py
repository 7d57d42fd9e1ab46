"""The gold tables of changes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kafka_partition_events.spark.changes.ack_curve import change_ack_curve
from kafka_partition_events.spark.changes.convergence import change_convergence
from kafka_partition_events.spark.changes.inputs import ChangeTable
from kafka_partition_events.spark.changes.laggards import change_laggards

TABLES: Final[Mapping[str, ChangeTable]] = MappingProxyType(
    {
        "change_convergence": change_convergence,
        "change_ack_curve": change_ack_curve,
        "change_laggards": change_laggards,
    }
)
"""By name. The rows of a change have the ``day`` of its request, by which they are replaced."""
