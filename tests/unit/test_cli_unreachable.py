"""A broker that can't be reached is reported once, with the cure."""

import time

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import plainly
from kafka_partition_events.testing.ports import free_ports

TRANSPORT = (
    "no metadata from localhost:1: the cluster does not answer: Failed to get metadata: Local: Broker "
    "transport failure (cause: _TRANSPORT: broker-2:9092/2: Connect to ipv4#127.0.0.1:1 failed: "
    "Connection refused (after 0ms in state CONNECT))"
)
RESOLVE = (
    "no answer from the brokers: Failed to get metadata: Local: Broker transport failure (cause: _RESOLVE: "
    "nosuch.invalid:1/2: Failed to resolve 'nosuch.invalid:1': Name or service not known (after 0ms "
    "in state CONNECT))"
)
CREDENTIALS = (
    "SASL authentication error: Authentication failed during authentication due to invalid credentials with "
    "SASL mechanism SCRAM-SHA-512"
)
CERTIFICATE = (
    "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could "
    "not be verified, verify that ssl.ca.location is correctly configured"
)
FAILED = "no metadata from h:9093: Failed to get metadata: Local: Broker transport failure (cause: "
LOGIN = f"{FAILED}_AUTHENTICATION: sasl_ssl://h:9093/bootstrap: {CREDENTIALS} (after 317ms in AUTH_REQ))"
TLS = f"{FAILED}_SSL: ssl://h:9093/bootstrap: {CERTIFICATE} (after 5ms in state SSL_HANDSHAKE))"
ADVERTISED = "advertises this address (advertised.listeners); is it up, and can this host reach it?"


@pytest.mark.parametrize(
    ("message", "plain"),
    [
        (TRANSPORT, f"Connection refused by broker-2:9092: broker 2 {ADVERTISED}"),
        (RESOLVE, f"Failed to resolve nosuch.invalid:1: Name or service not known; broker 2 {ADVERTISED}"),
        (LOGIN, f"Login refused by h:9093: {CREDENTIALS};"),
        (TLS, f"TLS failed with h:9093: {CERTIFICATE};"),
        ("there is no topic orders", "there is no topic orders"),
    ],
)
def test_the_cause_is_named_once(message: str, plain: str) -> None:
    assert plainly(message).removesuffix(" -v shows more") == plain


@pytest.mark.parametrize(
    ("command", "code"), [("check", 3), ("watch", 2), ("doctor", 2), ("doctor partitioner --topic t", 2)]
)
def test_where_nobody_listens_nobody_is_waited_for(
    command: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    address, began = f"127.0.0.1:{free_ports(1)[0]}", time.monotonic()
    assert run([*command.split(), "-b", f"{address},{address}"]) == code
    assert time.monotonic() - began < 5.0, "a busy machine takes a second; librdkafka's limit is 7 s"
    told = capsys.readouterr()
    cause = f"Connection refused by {address}: is the address right, and is a broker up there?"
    assert cause in told.out + told.err
    assert (told.out + told.err).count("\n") == 1


def test_a_name_that_there_is_not_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "-b", "nosuch.invalid:9092"]) == 3
    assert "KPE UNKNOWN - Failed to resolve nosuch.invalid:9092: " in capsys.readouterr().out
