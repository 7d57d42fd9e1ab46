"""The service's configuration: several clusters in one process, each with an outbox of its own."""

from pathlib import Path

import pytest

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.settings import of_cluster
from tests.config_kit import Writer

TWO = """
[kafka]
client = "confluent-kafka"
properties = { "security.protocol" = "SSL" }
[outbox]
path = "/var/lib/kpe/outbox.db"
[observer]
topics = "orders.*"
[[sinks]]
name = "journal"
type = "kafka"
[[sinks]]
name = "eu-pager"
type = "webhook"
url = "https://pager.example/eu"
[[clusters]]
name = "eu"
bootstrap_servers = "eu-1:9093"
[[clusters]]
name = "us"
bootstrap_servers = "us-1:9093"
properties = { "security.protocol" = "SASL_SSL", "sasl.username" = "kpe" }
outbox = "/data/us.db"
topics = ".*"
sinks = ["journal"]
"""


def test_each_has_what_is_common_and_its_own(config: Writer) -> None:
    found = config.load(TWO).settings.by_cluster()
    eu, us = found["eu"], found["us"]
    assert list(found) == ["eu", "us"]
    assert (eu.kafka.bootstrap_servers, us.kafka.bootstrap_servers) == ("eu-1:9093", "us-1:9093")
    assert (eu.kafka.client, us.kafka.client) == ("confluent-kafka", "confluent-kafka")
    assert eu.kafka.properties == {"security.protocol": "SSL"}
    assert us.kafka.properties == {"security.protocol": "SASL_SSL", "sasl.username": "kpe"}
    assert (Path(eu.outbox.path), us.outbox.path) == (Path("/var/lib/kpe/outbox-eu.db"), "/data/us.db")
    assert (eu.observer.topics, us.observer.topics) == ("orders.*", ".*")
    assert [sink.name for sink in eu.sinks] == ["journal", "eu-pager"]
    assert [sink.name for sink in us.sinks] == ["journal"]


def test_who_names_none_has_one(config: Writer) -> None:
    settings = config.load('[kafka]\nbootstrap_servers = "x:1"\n').settings
    assert settings.by_cluster() == {"": settings}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ('bootstrap_servers = "a:1"\n', "clusters.eu: there are two clusters of that name"),
        ('name2 = "x"\n', "clusters.us.name2: there is no such setting; did you mean clusters.us.name?"),
        (
            'bootstrap_servers = "a:1"\nsinks = ["pagr"]\n',
            "clusters.us.sinks: there is no pagr, only none",
        ),
        (
            'bootstrap_servers = "a:1"\noutbox = "kpe-outbox-eu.db"\n',
            "clusters.us.outbox: kpe-outbox-eu.db is that of eu: each cluster has its own",
        ),
    ],
)
def test_what_is_wrong_is_named(more: str, problem: str, config: Writer) -> None:
    name = "eu" if "two clusters" in problem else "us"
    file = f'[[clusters]]\nname = "eu"\nbootstrap_servers = "e:1"\n[[clusters]]\nname = "{name}"\n{more}'
    assert problem in "\n".join(config.problems(file))


def test_a_cluster_in_the_section_of_one_is_one_too_many(config: Writer) -> None:
    file = '[kafka]\nbootstrap_servers = "x:1"\n[[clusters]]\nname = "eu"\nbootstrap_servers = "e:1"\n'
    assert config.problems(file) == ["kafka.bootstrap_servers: there are [[clusters]]: name it there instead"]


def test_a_command_for_one_cluster_asks_which(config: Writer) -> None:
    settings = config.load(TWO).settings
    assert of_cluster(settings, "us").outbox.path == "/data/us.db"
    for name in (None, "asia"):
        with pytest.raises(CliError, match=r"by --cluster-name; the configuration has eu, us"):
            of_cluster(settings, name)
    with pytest.raises(CliError, match=r"has no \[\[clusters\]\]"):
        of_cluster(config.load("").settings, "eu")
