"""The service's configuration: sinks for those who are on call."""

import pytest
from attrs import fields

from kafka_partition_events.observe.settings import Kafka
from kafka_partition_events.observe.sink_settings import (
    SINK_TYPES,
    AlertmanagerSinkSettings,
    PagerDutySinkSettings,
    SmtpSinkSettings,
)
from kafka_partition_events.observe.sinks import make_sink
from kafka_partition_events.outbox import RepeatingSink, Stream
from tests.config_kit import Writer, origin, text

ALL = """
[[sinks]]
name = "am"
type = "alertmanager"
urls = ["http://am-1:9093", "http://am-2:9093/prefix"]
repeat_interval = "30s"
headers = { Authorization = "Bearer s3cret" }

[[sinks]]
name = "pd"
type = "pagerduty"
routing_key = "0123456789abcdef0123456789abcdef"
url = "https://events.eu.pagerduty.com/v2/enqueue"
runbook_url = "https://wiki.example.com/kafka"

[[sinks]]
name = "mail"
type = "smtp"
host = "mail.example.com"
username = "kpe"
password = "s3cret"
sender = "Kafka <kafka@example.com>"
to = ["noc@example.com", "ada@example.com"]
"""


def test_what_can_be_said(config: Writer) -> None:
    assert config.load(ALL).settings.sinks == (
        AlertmanagerSinkSettings(
            name="am",
            urls=("http://am-1:9093", "http://am-2:9093/prefix"),
            repeat_interval=30.0,
            headers={"Authorization": "Bearer s3cret"},
            allow_private=True,
        ),
        PagerDutySinkSettings(
            name="pd",
            routing_key="0123456789abcdef0123456789abcdef",
            url="https://events.eu.pagerduty.com/v2/enqueue",
            runbook_url="https://wiki.example.com/kafka",
            allow_private=False,
        ),
        SmtpSinkSettings(
            name="mail",
            host="mail.example.com",
            port=None,
            security="starttls",
            username="kpe",
            password="s3cret",  # noqa: S106
            sender="Kafka <kafka@example.com>",
            to=("noc@example.com", "ada@example.com"),
        ),
    )


def test_each_makes_its_sink(config: Writer) -> None:
    sinks = [make_sink(sink, Kafka()) for sink in config.load(ALL).settings.sinks]
    assert [(sink.name, sink.stream) for sink in sinks] == [
        ("am", Stream.INCIDENTS),
        ("pd", Stream.INCIDENTS),
        ("mail", Stream.INCIDENTS),
    ]
    assert [isinstance(sink, RepeatingSink) for sink in sinks] == [True, False, False]
    for sink in sinks:
        sink.close()


def test_secrets_are_masked_and_the_environment_has_lists(config: Writer) -> None:
    loaded = config.load(ALL, {"KPE_SINKS__AM__URLS": "http://am-3:9093,http://am-4:9093"})
    assert {
        value.value for value in loaded.values if "s3cret" in value.value or "01234" in value.value
    } == set()
    assert [text(loaded, f"sinks.{key}") for key in ("pd.routing_key", "mail.password")] == ["***", "***"]
    assert text(loaded, "sinks.am.urls") == '["http://am-3:9093", "http://am-4:9093"]'
    assert origin(loaded, "sinks.am.urls") == "environment KPE_SINKS__AM__URLS"


@pytest.mark.parametrize("urls", ["[]", '["am-1:9093"]', '"http://am-1:9093"', "[1]"])
def test_what_is_no_list_of_urls(urls: str, config: Writer) -> None:
    (problem,) = config.problems(f'[[sinks]]\nname = "am"\ntype = "alertmanager"\nurls = {urls}\n')
    assert problem.endswith(" is not a list of http:// or https:// URLs")


@pytest.mark.parametrize("type_", ["alertmanager", "pagerduty", "smtp"])
def test_who_is_on_call_is_not_fed_with_every_event(type_: str, config: Writer) -> None:
    problems = config.problems(f'[[sinks]]\nname = "x"\ntype = "{type_}"\nstream = "events"\n')
    assert any(problem.endswith('sinks.x.stream: "events" is not one of "incidents"') for problem in problems)


@pytest.mark.parametrize(("type_", "settings"), SINK_TYPES.items())
def test_each_has_what_the_service_needs_of_a_sink(type_: str, settings: type) -> None:
    assert {"name", "type", "stream", "max_delay", "max_age"} <= {field.name for field in fields(settings)}
    assert fields(settings).type.default == type_
