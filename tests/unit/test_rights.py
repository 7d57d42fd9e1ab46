"""What a refusal tells: who lacks which right, and the line that gives it."""

from typing import Any

import pytest

from kafka_partition_events.acls import Right, as_command
from kafka_partition_events.clients.rights import lacking, principal

READ = Right(("Read",), "topic", "kpe.changes")
ALICE = {
    "bootstrap.servers": "b:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "not told",
}


def test_who_lacks_what_and_the_line_that_gives_it() -> None:
    assert lacking("TOPIC_AUTHORIZATION_FAILED", [READ], ALICE) == (
        "User:alice lacks READ on topic kpe.changes; to give it: kafka-acls.sh --bootstrap-server b:9093 "
        "--add --allow-principal User:alice --operation Read --topic kpe.changes"
    )


def test_only_rights_on_what_was_refused_are_named() -> None:
    needed = [READ, Right(("Read",), "group", "kpe-tracker"), Right(("Write",), "transactional-id", "kpe-t")]
    told = str(lacking("GROUP_AUTHORIZATION_FAILED", needed, ALICE))
    assert told.startswith("User:alice lacks READ on group kpe-tracker; ")
    told = str(lacking("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", needed, ALICE))
    assert told.startswith("User:alice lacks WRITE on transactional-id kpe-t; ")


def test_several_operations_one_that_nobody_has_thought_of_and_another_error() -> None:
    both = Right(("Write", "DescribeConfigs"), "topic", "t")
    told = str(lacking("TOPIC_AUTHORIZATION_FAILED", [both], ALICE))
    assert told.startswith("User:alice lacks WRITE and DESCRIBE_CONFIGS on topic t; ")
    assert told.endswith("--operation Write --operation DescribeConfigs --topic t")
    told = str(lacking("CLUSTER_AUTHORIZATION_FAILED", [READ], ALICE))
    assert told == "User:alice lacks a right on a cluster (CLUSTER_AUTHORIZATION_FAILED)"
    assert lacking("REQUEST_TIMED_OUT", [READ], ALICE) is None


def test_nobody_is_named_where_the_connection_is_not_known() -> None:
    told = str(lacking("TOPIC_AUTHORIZATION_FAILED", [READ], None))
    assert told.startswith("this principal lacks READ on topic kpe.changes; ")
    assert "--allow-principal User:... " in told


def test_the_cluster_has_no_name() -> None:
    line = as_command(Right(("Create",), "cluster"), "User:a", "b:1")
    assert line.removeprefix("kafka-acls.sh --bootstrap-server b:1 ") == (
        "--add --allow-principal User:a --operation Create --cluster"
    )


@pytest.mark.parametrize(
    ("config", "who"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "SSL"}, "User:ANONYMOUS"),
        (ALICE, "User:alice"),
        ({**ALICE, "sasl.mechanism": "plain"}, "User:alice"),
        ({**ALICE, "sasl.mechanism": "OAUTHBEARER"}, None),
        ({"security.protocol": "sasl_plaintext", "sasl.username": "alice"}, None),  # GSSAPI is the default
        ({"security.protocol": "ssl", "ssl.certificate.location": "/nowhere"}, None),
        ({"security.protocol": "ssl", "ssl.keystore.location": "/k.p12"}, None),
    ],
)
def test_as_whom_brokers_know_a_client(config: Any, who: str | None) -> None:
    assert principal(config) == who
