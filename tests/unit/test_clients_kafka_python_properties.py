"""librdkafka's properties in kafka-python's words: what is translated, passed over, refused."""

from pathlib import Path

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


def refusal(**properties: str) -> str:
    """Return why properties are refused; in their names underscores stand for dots."""
    with pytest.raises(ConfigurationError) as refused:
        kafka_python_settings({name.replace("_", "."): value for name, value in properties.items()})
    return str(refused.value)


def test_tls_and_a_login_are_translated(tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem", "crl.pem"):
        (tmp_path / name).touch()
    assert kafka_python_settings(
        {
            "bootstrap.servers": "a:1,b:2",
            **LOGIN,
            "ssl.ca.location": f"{tmp_path}/ca.pem",
            "ssl.certificate.location": f"{tmp_path}/cert.pem",
            "ssl.key.location": f"{tmp_path}/key.pem",
            "ssl.key.password": PASSWORD,
            "ssl.crl.location": f"{tmp_path}/crl.pem",
            "ssl.endpoint.identification.algorithm": "none",
        }
    ) == {
        "bootstrap_servers": "a:1,b:2",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "kpe",
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": f"{tmp_path}/ca.pem",
        "ssl_certfile": f"{tmp_path}/cert.pem",
        "ssl_keyfile": f"{tmp_path}/key.pem",
        "ssl_password": PASSWORD,
        "ssl_crlfile": f"{tmp_path}/crl.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("name", "value", "setting", "meaning"),
    [
        ("security.protocol", "sasl_plaintext", "security_protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanisms", "plain", "sasl_mechanism", "PLAIN"),
        ("ssl.endpoint.identification.algorithm", "https", "ssl_check_hostname", True),
        ("socket.timeout.ms", "5000", "request_timeout_ms", 5_000),
        ("connections.max.idle.ms", "0", "connections_max_idle_ms", 2**31 - 1),  # never, to librdkafka
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
        ("log_level", "7"),
        ("enable.ssl.certificate.verification", "true"),
    ],
)
def test_what_has_no_bearing_on_whom_it_connects_to_is_passed_over(name: str, value: str) -> None:
    assert kafka_python_settings({name: value}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.ssl.certificate.verification", "false"),
        ("ssl.keystore.location", "/kpe.p12"),
        ("ssl.ca.pem", "-----BEGIN"),
        ("sasl.oauthbearer.config", "x"),
        ("sasl.kerberos.keytab", "/kpe.keytab"),
        ("broker.address.family", "v6"),
        ("metadata.broker.list", "c:3"),
        ("plugin.library.paths", "monitoring"),
    ],
)
def test_what_has_one_and_no_equivalent_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        kafka_python_settings({**LOGIN, name: value})
    assert str(refused.value) == f"{name}: kafka-python has nothing like it"


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl.mechanism: with kafka-python it can only be PLAIN, SCRAM-"),
        (
            {"security_protocol": "TLS"},
            "security.protocol: with kafka-python it can only be PLAINTEXT, SSL, ",
        ),
        ({"ssl_ca_location": "/nowhere/ca.pem"}, "ssl.ca.location: there is no such file"),
        ({"ssl_ca_location": "/"}, "ssl.ca.location: there is no such file, and with kafka-python it has to"),
        ({"reconnect_backoff_ms": "soon"}, "reconnect.backoff.ms: it is not a whole number"),
        ({"security_protocol": "SASL_SSL"}, "sasl.mechanism: is missing"),
    ],
)
def test_a_value_without_an_equivalent_is_refused_too(properties: dict[str, str], told: str) -> None:
    assert refusal(**properties).startswith(told)


def test_all_that_is_in_the_way_is_told_and_no_value() -> None:
    told = refusal(
        ssl_ca_pem=PASSWORD, ssl_endpoint_identification_algorithm=PASSWORD, sasl_password=PASSWORD
    )
    assert [part.partition(":")[0] for part in told.split("; ")] == [
        "ssl.ca.pem",
        "ssl.endpoint.identification.algorithm",
    ]
    assert PASSWORD not in told


def test_a_login_needs_a_name_and_a_password() -> None:
    told = refusal(security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
    assert told == "sasl.username: is missing; sasl.password: is missing"


@pytest.mark.parametrize(("settings", "most"), [({}, 100_000_000), ({"receive_message_max_bytes": 7}, 7)])
def test_an_answer_may_be_as_long_as_librdkafkas(settings: dict[str, int], most: int) -> None:
    """With kafka-python's own limit of 1 MB, a cluster of 20,000 partitions could not be seen."""
    source = KafkaPythonMetadataSource({"bootstrap_servers": "127.0.0.1:1", **settings})
    assert source._link.manager().config["receive_message_max_bytes"] == most
    source.close()
