"""What brokers say of topics, for whatever in change control asks. Needs confluent-kafka."""

from collections.abc import Iterable

from confluent_kafka import KafkaException, TopicCollection

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import described_topic, error_name
from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.rights import is_refusal
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.metadata.reconcile import UNKNOWN_TOPIC


def describe_topics(
    connection: Connection,
    names: Iterable[str],
    timeout: float,
    operation: str = "Describe",
    refused: set[str] | None = None,
) -> dict[str, TopicInfo]:
    """Return those of the topics that are there. To describe a topic creates none.

    The operation is the right that is lacking where one must not be seen. Into ``refused`` such topics go.

    Raises:
        MetadataFetchError: one must not be seen, and there is no such set.
        KafkaException, TimeoutError: no broker answers.
    """
    found: dict[str, TopicInfo] = {}
    wanted = TopicCollection(sorted(names))
    for name, answer in connection.admin().describe_topics(wanted, request_timeout=timeout).items():
        try:
            found[name] = described_topic(answer.result(timeout))
        except KafkaException as error:
            reason = error_name(error.args[0])
            if is_refusal(reason):
                if refused is not None:
                    refused.add(name)
                    continue
                needed = Right((operation,), "topic", name)
                raise connection.failure(f"can't {operation.lower()} topic {name}", error, needed) from error
            if reason != UNKNOWN_TOPIC:
                raise
    return found
