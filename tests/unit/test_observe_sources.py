"""The client that looks at the cluster: the one that is configured."""

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.observe.settings import CONFLUENT, KAFKA_PYTHON, Client, Control, Kafka
from kafka_partition_events.observe.sources import open_link, open_source

SOURCES: dict[Client, type] = {KAFKA_PYTHON: KafkaPythonMetadataSource, CONFLUENT: ConfluentMetadataSource}


@pytest.mark.parametrize("client", SOURCES)
def test_the_client_that_is_configured_looks(client: Client) -> None:
    source = open_source(Kafka(client=client, bootstrap_servers="127.0.0.1:1"))
    assert isinstance(source, SOURCES[client])
    source.close()


def test_a_property_that_kafka_python_can_not_follow_is_told_with_the_cure() -> None:
    properties = {"ssl.ca.pem": "hunter2", "sasl.username": "kafka"}
    with pytest.raises(ConfigurationError) as refused:
        open_source(Kafka(client=KAFKA_PYTHON, bootstrap_servers="x:1", properties=properties))
    assert str(refused.value) == (
        "kafka.properties: ssl.ca.pem: kafka-python has nothing like it. "
        'Change that, or set client = "confluent-kafka" in [kafka]'
    )


def test_a_link_to_the_control_topics_is_made_as_the_cluster_is_reached() -> None:
    kafka = Kafka(bootstrap_servers="x:1", properties={"security.protocol": "hunter2"})
    with pytest.raises(ConfigurationError, match=r"control: .*Invalid value \*\*\*") as refused:
        open_link(Control(enabled=True), kafka)
    assert "hunter2" not in str(refused.value)
    open_link(Control(enabled=True), Kafka(bootstrap_servers="127.0.0.1:1")).close()
