"""What confluent-kafka's admin client can't do: who is the active controller, quotas, elections.

(It has `elect_leaders`, which fails in 2.16.1 before it asks anybody.) Each is one request on a connection of
its own, as in `broker_probe.py`.
"""

from collections.abc import Collection

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)

from kafka_partition_events.testing.cluster.broker_probe import exchange
from kafka_partition_events.testing.errors import KitError

_ELECTION_NOT_NEEDED = 84
_LIMIT_S = 30.0


def leads_quorum(host: str, port: int) -> bool:
    """Ask the controller at `host`:`port` whether it is the active one.

    Raises:
        ProbeError: there was no usable answer.
    """
    topic, partition = DescribeQuorumRequest.TopicData, DescribeQuorumRequest.TopicData.PartitionData
    asked = [topic(topic_name="__cluster_metadata", partitions=[partition(partition_index=0)])]
    answer = exchange(host, port, DescribeQuorumRequest(topics=asked), DescribeQuorumResponse, 0)
    if answer.error_code:
        return False
    return not any(each.error_code for found in answer.topics for each in found.partitions)


def alter_client_quota(host: str, port: int, client_id: str, quota: str, value: float | None) -> None:
    """Set a quota of a client id; None removes it.

    Raises:
        ProbeError: there was no usable answer.
        KitError: Kafka refused.
    """
    data = AlterClientQuotasRequest.EntryData
    entry = data(
        entity=[data.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[data.OpData(key=quota, value=value or 0.0, remove=value is None)],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    for each in exchange(host, port, request, AlterClientQuotasResponse, 0).entries:
        if each.error_code:
            raise KitError(f"could not set quotas: {each.error_message or f'error {each.error_code}'}")


def elect_leaders(host: str, port: int, topic: str, partitions: Collection[int], *, unclean: bool) -> None:
    """Have leaders elected: the first replica of each partition, or, if `unclean`, any that is there.

    Raises:
        ProbeError: there was no usable answer.
        KitError: Kafka refused, for a reason other than that there is no need.
    """
    request = ElectLeadersRequest(
        election_type=int(unclean),
        topic_partitions=[ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[*partitions])],
        timeout_ms=int(_LIMIT_S * 1e3),
    )
    answer = exchange(host, port, request, ElectLeadersResponse, 1, timeout=_LIMIT_S + 5.0)
    results = [each for one in answer.replica_election_results for each in one.partition_result]
    errors = [(answer.error_code, None), *((each.error_code, each.error_message) for each in results)]
    for error, message in errors:
        if error not in {0, _ELECTION_NOT_NEEDED}:
            raise KitError(f"could not elect leaders of topic {topic}: {message or f'error {error}'}")
