"""kafka-python: a metadata source, and `attach`, which makes a producer's partitioner follow the cluster.

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

from kafka_partition_events.clients.kafka_python.attach import attach
from kafka_partition_events.clients.kafka_python.rescue import rescue_stats, topic_counts
from kafka_partition_events.clients.kafka_python.source import KafkaPythonMetadataSource
from kafka_partition_events.partitioners.base import Partitioner as _Partitioner

_KafkaPythonPartitioner.register(_Partitioner)

__all__ = ["KafkaPythonMetadataSource", "attach", "rescue_stats", "topic_counts"]
