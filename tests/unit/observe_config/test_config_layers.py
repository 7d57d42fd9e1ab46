"""The service's configuration: command line over environment over file over defaults; who has set what."""

import pytest

from kafka_partition_events.observe.config import load_config
from kafka_partition_events.observe.settings import Settings
from kafka_partition_events.observe.sink_settings import WebhookSinkSettings
from tests.config_kit import Writer, origin


def test_the_command_line_wins_over_the_environment_over_the_file_over_defaults(config: Writer) -> None:
    file = '[observer]\nname = "file"\ninterval = "1s"\ntopics = "file"\n'
    environ = {"KPE_OBSERVER__INTERVAL": "2s", "KPE_OBSERVER__TOPICS": "environment"}
    found = config.load(file, environ, {"observer.topics": "flag"})
    observer = found.settings.observer
    assert (observer.name, observer.interval, observer.topics) == ("file", 2.0, "flag")
    assert origin(found, "observer.name") == f"file {config.path}"
    assert origin(found, "observer.interval") == "environment KPE_OBSERVER__INTERVAL"
    assert origin(found, "observer.topics") == "command line"
    assert origin(found, "outbox.path") == "default"


def test_the_environment_can_say_all_kinds_of_values() -> None:
    settings = load_config(
        None,
        {
            "KPE_KAFKA__BOOTSTRAP_SERVERS": "a:1,b:2",
            "KPE_KAFKA__CLIENT": "confluent-kafka",
            "KPE_ELECTION__ENABLED": "true",
            "KPE_METRICS__MAX_TOPICS": "7",
            "KPE_OUTBOX__MAX_BYTES": "1MiB",
            "KPE_HTTP__LISTEN": "0.0.0.0:80",
        },
    ).settings
    assert settings.kafka.bootstrap_servers == "a:1,b:2"
    assert settings.kafka.client == "confluent-kafka"
    assert settings.election.enabled is True
    assert settings.metrics.max_topics == 7
    assert settings.outbox.max_bytes == 2**20
    assert settings.http.listen == ("0.0.0.0", 80)  # noqa: S104 - only read


def test_properties_of_all_layers_go_together(config: Writer) -> None:
    found = config.load(
        '[kafka.properties]\n"sasl.username" = "file"\n"client.id" = "kpe"\n',
        {"KPE_KAFKA__PROPERTIES__SASL_USERNAME": "environment"},
        {"kafka.properties.client.rack": "r1"},
    )
    assert found.settings.kafka.properties == {
        "sasl.username": "environment",
        "client.id": "kpe",
        "client.rack": "r1",
    }
    assert origin(found, "kafka.properties.sasl.username") == (
        "environment KPE_KAFKA__PROPERTIES__SASL_USERNAME"
    )


def test_the_environment_names_a_sink_by_its_name(config: Writer) -> None:
    file = '[[sinks]]\nname = "on-call"\ntype = "webhook"\nurl = "https://old.example/"\n'
    found = config.load(file, {"KPE_SINKS__ON_CALL__URL": "https://new.example/x"})
    (sink,) = found.settings.sinks
    assert isinstance(sink, WebhookSinkSettings)
    assert sink.url == "https://new.example/x"
    assert config.problems(file, {"KPE_SINKS__ONCALL__URLS": "x"}) == [
        (
            "environment: KPE_SINKS__ONCALL__URLS: there is no such setting; "
            "did you mean KPE_SINKS__ON_CALL__URL?"
        )
    ]


@pytest.mark.parametrize("name", ["KPE_CONFIG", "KPE_BOOTSTRAP_SERVERS", "PATH", "XKPE_OBSERVER__NAMES"])
def test_other_variables_are_none_of_its_business(name: str) -> None:
    assert load_config(None, {name: "x"}).settings == Settings()
