"""The client that looks at the cluster: the one that is configured, if it is there."""

import sys

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.observe.settings import CONFLUENT, KAFKA_PYTHON, Client, Control, Kafka
from kafka_partition_events.observe.sources import installed_client, open_link, open_source

PACKAGES: dict[Client, str] = {
    KAFKA_PYTHON: "kafka_partition_events.clients.kafka_python",
    CONFLUENT: "kafka_partition_events.clients.confluent",
}
SOURCES: dict[Client, type] = {KAFKA_PYTHON: KafkaPythonMetadataSource, CONFLUENT: ConfluentMetadataSource}


@pytest.mark.parametrize("client", SOURCES)
def test_the_client_that_is_configured_looks(client: Client) -> None:
    source = open_source(Kafka(client=client, bootstrap_servers="127.0.0.1:1"))
    assert isinstance(source, SOURCES[client])
    source.close()


@pytest.mark.parametrize(("wanted", "other"), [(KAFKA_PYTHON, CONFLUENT), (CONFLUENT, KAFKA_PYTHON)])
def test_if_it_is_not_installed_the_other_one_does_and_one_is_needed(
    wanted: Client, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed_client(wanted) == wanted
    monkeypatch.setitem(sys.modules, PACKAGES[wanted], None)
    assert installed_client(wanted) == other
    monkeypatch.setitem(sys.modules, PACKAGES[other], None)
    with pytest.raises(ImportError):
        installed_client(wanted)


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
