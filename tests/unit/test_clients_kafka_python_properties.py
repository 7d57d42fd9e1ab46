"""librdkafka's properties in kafka-python's words: what is translated, passed over, refused."""

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource
from kafka_partition_events.clients.kafka_python.properties import kafka_python_settings

PASSWORD = "hunter2"  # noqa: S105
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "kpe",
    "sasl.password": PASSWORD,
}


def test_tls_and_a_login_are_translated() -> None:
    assert kafka_python_settings(
        {
            "bootstrap.servers": "a:1,b:2",
            **LOGIN,
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.location": "/cert.pem",
            "ssl.key.location": "/key.pem",
            "ssl.key.password": PASSWORD,
            "ssl.crl.location": "/crl.pem",
            "ssl.endpoint.identification.algorithm": "none",
        }
    ) == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "kpe",
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": "/ca.pem",
        "ssl_certfile": "/cert.pem",
        "ssl_keyfile": "/key.pem",
        "ssl_password": PASSWORD,
        "ssl_crlfile": "/crl.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("name", "value", "setting", "meaning"),
    [
        ("security.protocol", "sasl_plaintext", "security_protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanisms", "plain", "sasl_mechanism", "PLAIN"),
        ("ssl.endpoint.identification.algorithm", "https", "ssl_check_hostname", True),
    ],
)
def test_so_are_these(name: str, value: str, setting: str, meaning: object) -> None:
    assert kafka_python_settings({**LOGIN, "sasl.mechanism": "PLAIN", name: value})[setting] == meaning


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", "zstd"),  # for a sink
        ("statistics.interval.ms", "1000"),
        ("client.rack", "r1"),
        ("socket.keepalive.enable", "true"),
        ("socket.timeout.ms", "5000"),
        ("log_level", "7"),
        ("enable.ssl.certificate.verification", "true"),
    ],
)
def test_what_has_no_bearing_on_whom_it_connects_to_is_passed_over(name: str, value: str) -> None:
    assert kafka_python_settings({name: value}) == {}


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        *[
            ({**LOGIN, name: PASSWORD}, f"{name}: kafka-python has nothing like it")
            for name in (
                "enable.ssl.certificate.verification", "ssl.keystore.location", "ssl.ca.pem",
                "sasl.oauthbearer.config", "sasl.kerberos.keytab", "broker.address.family",
                "metadata.broker.list", "plugin.library.paths",
            )
        ],
        (
            {"sasl.mechanism": "OAUTHBEARER"},
            "sasl.mechanism: with kafka-python it can only be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            {"security.protocol": "TLS"},
            "security.protocol: with kafka-python it can only be PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"security.protocol": "SASL_SSL"},
            "sasl.mechanism: is missing; with kafka-python it can be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.username: is missing; sasl.password: is missing",
        ),
        (
            {"ssl.ca.pem": PASSWORD, "ssl.key.pem": PASSWORD},
            "ssl.ca.pem: kafka-python has nothing like it; ssl.key.pem: kafka-python has nothing like it",
        ),
    ],
)  # fmt: skip
def test_what_is_in_the_way_is_named_without_its_value(properties: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kafka_python_settings(properties)
    assert str(refused.value) == why


def test_a_file_that_is_not_there_is_refused_before_it_connects() -> None:
    with pytest.raises(ConfigurationError, match="ssl_cafile: there is no file /nowhere"):
        KafkaPythonMetadataSource(kafka_python_settings({"ssl.ca.location": "/nowhere"}))


@pytest.mark.parametrize(("settings", "most"), [({}, 100_000_000), ({"receive_message_max_bytes": 7}, 7)])
def test_an_answer_may_be_as_long_as_librdkafkas(settings: dict[str, int], most: int) -> None:
    """With kafka-python's own limit of 1 MB, a cluster of 20,000 partitions could not be seen."""
    source = KafkaPythonMetadataSource({"bootstrap_servers": "127.0.0.1:1", **settings})
    assert source._manager().config["receive_message_max_bytes"] == most
    source.close()
