"""What is wrong with a certificate's file is told at once, by both clients."""

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.clients.kafka_python.properties import kafka_python_settings


def test_a_ca_file_that_does_not_exist_is_told_at_once() -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.ca.location": "/no/ca.pem"}
    with pytest.raises(ConfigurationError, match=r"ssl\.ca\.location"):
        ConfluentMetadataSource(config)
    with pytest.raises(ConfigurationError, match=r"ssl_cafile: there is no file /no/ca\.pem"):
        KafkaPythonMetadataSource(kafka_python_settings(config))
