"""The service's configuration: what can be said in it, and what holds if nothing is said."""

from pathlib import Path

import pytest

from kafka_partition_events.observe.config import load_config
from kafka_partition_events.observe.quantities import parse_duration, parse_size
from kafka_partition_events.observe.settings import Settings, Window
from kafka_partition_events.observe.sink_settings import KafkaSinkSettings, WebhookSinkSettings
from tests.config_kit import WHOLE, Writer, text


def test_without_anything_there_are_defaults() -> None:
    config = load_config(None, {})
    assert config.settings == Settings()
    assert config.settings.kafka.client == "kafka-python"
    assert config.settings.observer.interval == 10.0
    assert config.settings.outbox.max_bytes == 512 * 2**20
    assert config.settings.outbox.max_age == 7 * 86_400.0
    assert config.settings.http.listen == ("127.0.0.1", 9404)
    assert config.settings.election.enabled is False
    assert {value.origin for value in config.values} == {"default"}
    assert (text(config, "kafka.bootstrap_servers"), text(config, "observer.interval")) == ("", '"10s"')


def test_a_whole_file(config: Writer) -> None:
    settings = config.load(WHOLE).settings
    assert settings.kafka.client == "confluent-kafka"
    assert settings.kafka.bootstrap_servers == "broker-1:9093,broker-2:9093"
    assert settings.kafka.properties == {"security.protocol": "SASL_SSL", "sasl.username": "kpe"}
    assert (settings.observer.name, settings.observer.interval) == ("noc-1", 5.0)
    assert (settings.outbox.max_bytes, settings.outbox.max_age) == (2**30, 172_800.0)
    assert settings.http.listen == ("::1", 9500)
    assert (settings.metrics.granularity, settings.metrics.max_topics) == ("cluster", 10)
    assert (settings.incidents.hold_down, settings.incidents.flap_transitions) == (60.0, 6)
    assert settings.incidents.topic_hold_downs == {"audit.*": 300.0}
    assert settings.election.enabled is True
    assert settings.sinks == (
        KafkaSinkSettings(name="journal", type="kafka", stream="events", topic="kpe.events"),
        WebhookSinkSettings(
            name="pager",
            type="webhook",
            stream="incidents",
            url="https://pager.example/hook/s3cret",
            format="slack",
            secrets=("whsec_one", "whsec_two"),
            headers={"Authorization": "Bearer s3cret"},
        ),
    )
    assert settings.windows == (
        Window(
            name="patch-sunday",
            reason="the machines get their updates",
            weekly=("sun", "02:30"),
            lasts=5_400.0,
            broker=2,
        ),
    )


def test_properties_may_be_written_as_toml_writes_dotted_names(config: Writer) -> None:
    properties = config.load(
        "[kafka.properties]\n"
        'security.protocol = "SSL"\n'
        "ssl.ca.location = '/ca.pem'\n"
        "socket.timeout.ms = 5000\n"
        "enable.ssl.certificate.verification = false\n"
    ).settings.kafka.properties
    assert properties == {
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
        "socket.timeout.ms": "5000",
        "enable.ssl.certificate.verification": "false",
    }


@pytest.mark.parametrize(
    ("written", "size"), [("1B", 1), ("64kB", 64_000), ("1.5MiB", 1_572_864), ("2GB", 2 * 10**9)]
)
def test_sizes(written: str, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize("written", ["", "512", "512MIB", "MiB", "-1B", "0B", "0.5B", "9" * 400 + "B"])
def test_what_is_no_size(written: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(written)


def test_durations_have_days() -> None:
    assert parse_duration("7d") == 604_800.0


EGRESS = """
[[sinks]]
name = "pager"
type = "webhook"
url = "https://pager.example/x"
allow_networks = ["10.1.0.0/16", "fd00::/8"]
proxy = "http://kpe:s3cret@proxy.example:3128"
ca_file = "/etc/kpe/ca.pem"
client_cert = "/etc/kpe/kpe.pem"
client_key = "/etc/kpe/kpe.key"
redact = ["hosts", "errors"]
"""


def test_where_a_webhook_may_go(config: Writer) -> None:
    read = config.load(EGRESS)
    (sink,) = read.settings.sinks
    assert isinstance(sink, WebhookSinkSettings)
    assert sink.allow_networks == ("10.1.0.0/16", "fd00::/8")
    assert (sink.ca_file, sink.client_cert) == ("/etc/kpe/ca.pem", "/etc/kpe/kpe.pem")
    assert sink.redact == ("hosts", "errors")
    assert text(read, "sinks.pager.proxy") == "http://proxy.example:3128/***"
    assert "s3cret" not in str(read.values)


def test_and_by_the_environment(config: Writer, tmp_path: Path) -> None:
    (tmp_path / "proxy").write_text("http://kpe:s3cret@other.example:3128\n")
    environ = {
        "KPE_SINKS__PAGER__CA_FILE": "/other/ca.pem",
        "KPE_SINKS__PAGER__ALLOW_NETWORKS": "10.2.0.0/16,10.3.0.0/16",
        "KPE_SINKS__PAGER__REDACT": "observers",
        "KPE_SINKS__PAGER__PROXY_FILE": str(tmp_path / "proxy"),
    }
    without = "\n".join(line for line in EGRESS.splitlines() if not line.startswith("proxy"))
    (sink,) = config.load(without, environ).settings.sinks
    assert isinstance(sink, WebhookSinkSettings)
    assert (sink.ca_file, sink.allow_networks) == ("/other/ca.pem", ("10.2.0.0/16", "10.3.0.0/16"))
    assert (sink.redact, sink.proxy) == (("observers",), "http://kpe:s3cret@other.example:3128")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('allow_networks = ["10.1.0.1/16"]', 'a list of networks such as ["10.1.0.0/16"]'),
        ('allow_networks = "10.1.0.0/16"', 'a list of networks such as ["10.1.0.0/16"]'),
        ('redact = ["host"]', 'a list of "hosts", "errors", "observers"'),
        ('proxy = "proxy.example:3128"', "an http:// or https:// URL"),
    ],
)
def test_where_it_may_not(line: str, problem: str, config: Writer) -> None:
    kept = [kept for kept in EGRESS.splitlines() if kept.split(" =")[0] != line.split(" =", maxsplit=1)[0]]
    (told,) = config.problems("\n".join([*kept, line]))
    assert told.endswith(f"is not {problem}")
