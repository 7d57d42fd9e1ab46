"""Passwords and certificates that are replaced in their files while a client runs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_partition_events.clients.confluent.connection import Connection
from kafka_partition_events.clients.kafka_python.properties import kafka_python_settings
from kafka_partition_events.clients.librdkafka import FromFile, connecting, login_of, up_to_date
from kafka_partition_events.control.agents import confluent
from kafka_partition_events.control.protocol.codec import Skipped
from kafka_partition_events.control.tracker import election
from kafka_partition_events.observe.config import load_config
from tests.certificate_kit import Authority

LOGIN = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("the first\n")
    return path


def test_what_a_file_holds_is_read_again_where_a_client_connects(file: Path) -> None:
    config = {"sasl.password": FromFile.read(str(file)), "sasl.username": "alice"}
    assert "first" not in repr(config), "it does not show itself"
    assert connecting(config)["sasl.password"] == "the first"
    file.write_text("the second\n")
    assert connecting(config)["sasl.password"] == "the second"
    assert up_to_date(config) == {"sasl.password": "the second", "sasl.username": "alice"}


@pytest.mark.parametrize("damage", ["gone", "empty", "no text"])
def test_a_file_that_is_of_no_use_any_more_leaves_what_it_held(file: Path, damage: str) -> None:
    value = FromFile.read(str(file))
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "empty" else b"\xff")
    assert value.now() == "the first"


def test_a_profiles_password_knows_its_file(file: Path, tmp_path: Path) -> None:
    profile = tmp_path / "kpe.toml"
    profile.write_text(f'[kafka.properties]\n"sasl.password_file" = "{file}"\n"sasl.username" = "alice"\n')
    settings = load_config(profile, {}).settings
    assert settings.kafka.properties["sasl.password"] == "the first"
    assert "first" not in repr(settings)
    file.write_text("the second")
    assert connecting(settings.kafka.properties)["sasl.password"] == "the second"


def test_kafka_pythons_settings_know_it_too(file: Path) -> None:
    settings = kafka_python_settings({**LOGIN, "sasl.password": FromFile.read(str(file))})
    file.write_text("the second")
    assert up_to_date(settings)["sasl_plain_password"] == "the second"  # noqa: S105


def test_a_login_differs_as_soon_as_a_file_of_it_was_replaced(file: Path, tmp_path: Path) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.write_text("1")
    config = {"sasl.password": FromFile.read(str(file)), "ssl.certificate.location": str(certificate)}
    first = login_of(config)
    assert login_of(config) == first
    certificate.write_text("2")
    os.utime(certificate, ns=(1, 1))
    second = login_of(config)
    assert second != first
    file.write_text("the second")
    assert login_of(config) != second


def test_a_connection_is_made_anew_after_a_failure_only_if_its_login_was_replaced(file: Path) -> None:
    connection = Connection({**LOGIN, "sasl.password": FromFile.read(str(file))})
    before = connection.admin()
    connection.failure("a test", TimeoutError())
    assert connection.admin() is before
    file.write_text("the second")
    connection.failure("a test", TimeoutError())
    assert connection.admin() is not before
    connection.close()


def test_a_connection_goes_on_while_only_half_of_a_pair_was_replaced(openssl: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path, openssl)
    certificate, key = authority.issue("kpe")
    pair = {"ssl.certificate.location": certificate, "ssl.key.location": key}
    config = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", **pair}
    connection = Connection(config)
    before, of_it = connection.admin(), Path(key).read_bytes()
    authority.issue("kpe")
    later = Path(key).read_bytes()
    Path(key).write_bytes(of_it)
    connection.failure("a test", TimeoutError())
    assert connection.admin() is before
    Path(key).write_bytes(later)
    connection.failure("a test", TimeoutError())
    assert connection.admin() is not before
    connection.close()


def test_an_agent_writes_with_the_login_of_now_after_a_record_was_lost(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Refused:
        def __init__(self, config: dict[str, str]) -> None:
            made.append(config["sasl.password"])

        def produce(self, *_record: object, on_delivery: Callable[[KafkaError, None], None]) -> None:
            on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), None)

    monkeypatch.setattr(confluent, "Producer", Refused)
    link = confluent.ControlLink({**LOGIN, "sasl.password": FromFile.read(str(file))})
    for _ in range(2):
        link.publish("a", b"1", lambda _at_ms: None)
    file.write_text("the second")
    for _ in range(2):
        link.publish("a", b"1", lambda _at_ms: None)
    assert made == ["the first", "the second"]


def test_a_tracker_that_stands_by_begins_again_with_the_login_of_now(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused:
        def __init__(self, config: dict[str, Any]) -> None:
            self.refuse = config["error_cb"]

        def poll(self, _timeout: float) -> None:
            self.refuse(KafkaError(KafkaError._AUTHENTICATION, "invalid credentials"))

    monkeypatch.setattr(election, "Consumer", Refused)
    membership = election.Membership({**LOGIN, "sasl.password": FromFile.read(str(file))}, "kpe.", Skipped())
    for _ in range(2):
        assert not membership.commands(1.0)
    file.write_text("the second")
    with pytest.raises(KafkaException, match="invalid credentials"):
        membership.commands(1.0)
