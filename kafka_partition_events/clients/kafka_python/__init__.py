"""kafka-python: a metadata source, `attach` (a producer's partitioner follows the cluster), `ordered`.

Importing this package registers our `Partitioner` with kafka-python's abstract base class, whatever was
imported first.
"""

try:
    from kafka.partitioner import Partitioner as _KafkaPythonPartitioner
except ImportError as error:
    raise ImportError(
        "kafka-python 3 is not installed; "
        'install the extra: pip install "kafka-partition-events[kafka-python]"'
    ) from error

from kafka_partition_events.clients.attaching import key_stats, rescue_stats
from kafka_partition_events.clients.kafka_python.attach import attach
from kafka_partition_events.clients.kafka_python.ordered import ordered
from kafka_partition_events.clients.kafka_python.source import KafkaPythonMetadataSource
from kafka_partition_events.partitioners.base import Partitioner as _Partitioner

_KafkaPythonPartitioner.register(_Partitioner)

__all__ = ["KafkaPythonMetadataSource", "attach", "key_stats", "ordered", "rescue_stats"]
