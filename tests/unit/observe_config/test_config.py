"""The service's configuration: what can be said, who wins, what is refused."""

from pathlib import Path

import pytest

from kafka_partition_events.observe.config import ConfigError, load_config
from kafka_partition_events.observe.quantities import parse_size
from kafka_partition_events.observe.settings import (
    AlertmanagerSinkSettings,
    KafkaSinkSettings,
    Settings,
    WebhookSinkSettings,
)
from tests.config_kit import WHOLE, Writer, origin

DURATION = "is not a duration: a number and ms, s, m, h or d, such as 500ms or 10m; 100 years at most"


# -- what can be said --------------------------------------------------------------------------------------


def test_without_anything_there_are_defaults() -> None:
    config = load_config(None, {})
    assert config.settings == Settings()
    assert config.values == ()


def test_a_whole_file(config: Writer) -> None:
    settings = config.load(WHOLE).settings
    assert settings.kafka.client == "confluent-kafka"
    assert settings.kafka.bootstrap_servers == "broker-1:9093,broker-2:9093"
    assert settings.kafka.properties == {"security.protocol": "SASL_SSL", "sasl.username": "kpe"}
    assert (settings.observer.name, settings.observer.interval) == ("noc-1", 5.0)
    assert (settings.outbox.max_bytes, settings.outbox.max_age) == (2**30, 172_800.0)
    assert settings.http.listen == ("::1", 9500)
    assert settings.metrics.max_topics == 10
    assert (settings.alerts.hold_down, settings.alerts.broker_hold_down) == (60.0, 30.0)
    assert settings.sinks == (
        KafkaSinkSettings(name="journal"),
        WebhookSinkSettings(
            name="pager",
            url="https://pager.example/hook/s3cret",
            events=("partition.*",),
            secrets=("whsec_one", "whsec_two"),
            headers={"Authorization": "Bearer s3cret"},
        ),
        AlertmanagerSinkSettings(
            name="on-call", urls=("http://alertmanager-1:9093", "http://alertmanager-2:9093")
        ),
    )


def test_properties_may_be_written_as_toml_writes_dotted_names(config: Writer) -> None:
    properties = config.load(
        "[kafka.properties]\n"
        'security.protocol = "SSL"\n'
        "socket.timeout.ms = 5000\n"
        "enable.ssl.certificate.verification = false\n"
    ).settings.kafka.properties
    assert properties == {
        "security.protocol": "SSL",
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


# -- who wins ----------------------------------------------------------------------------------------------


def test_the_command_line_wins_over_the_environment_over_the_file_over_defaults(config: Writer) -> None:
    file = '[observer]\nname = "file"\ninterval = "1s"\ntopics = "file"\n'
    environ = {"KPE_OBSERVER__INTERVAL": "2s", "KPE_OBSERVER__TOPICS": "environment"}
    found = config.load(file, environ, {"observer.topics": "flag"})
    observer = found.settings.observer
    assert (observer.name, observer.interval, observer.topics) == ("file", 2.0, "flag")
    assert origin(found, "observer.name") == f"file {config.path}"
    assert origin(found, "observer.interval") == "environment KPE_OBSERVER__INTERVAL"
    assert origin(found, "observer.topics") == "command line"
    assert "outbox.path" not in {value.key for value in found.values}


def test_the_environment_can_say_all_kinds_of_values() -> None:
    settings = load_config(
        None,
        {
            "KPE_KAFKA__BOOTSTRAP_SERVERS": "a:1,b:2",
            "KPE_KAFKA__CLIENT": "confluent-kafka",
            "KPE_CONTROL__ENABLED": "true",
            "KPE_METRICS__MAX_TOPICS": "7",
            "KPE_POLICY__MAX_PARTITIONS": "25",
            "KPE_OUTBOX__MAX_BYTES": "1MiB",
            "KPE_HTTP__LISTEN": "0.0.0.0:80",
        },
    ).settings
    assert settings.kafka.bootstrap_servers == "a:1,b:2"
    assert settings.kafka.client == "confluent-kafka"
    assert settings.control.enabled is True
    assert (settings.metrics.max_topics, settings.policy.max_partitions) == (7, 25)
    assert settings.outbox.max_bytes == 2**20
    assert settings.http.listen == ("0.0.0.0", 80)  # noqa: S104 - only read


def test_properties_of_all_layers_go_together(config: Writer) -> None:
    variable = "KPE_KAFKA__PROPERTIES__SASL_USERNAME"
    found = config.load(
        '[kafka.properties]\n"sasl.username" = "file"\n"client.id" = "kpe"\n',
        {variable: "environment"},
        {"kafka.properties.client.rack": "r1"},
    )
    properties = found.settings.kafka.properties
    assert properties == {"sasl.username": "environment", "client.id": "kpe", "client.rack": "r1"}
    assert origin(found, "kafka.properties.sasl.username") == f"environment {variable}"


@pytest.mark.parametrize("name", ["KPE_CONFIG", "KPE_BOOTSTRAP_SERVERS", "PATH", "XKPE_OBSERVER__NAMES"])
def test_other_variables_are_none_of_its_business(name: str) -> None:
    assert load_config(None, {name: "x"}).settings == Settings()


# -- what is not used --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        '[[sinks]]\nname = "pager"\ntype = "webhok"\n',
        '[alerts]\nhold_dwon = "1s"\n',
        "[policy]\nmax_partitions = 0\n",
        "[incidents]\n",
        "[anything]\n",
    ],
)
def test_a_command_looks_at_the_sections_that_it_uses_and_no_other(config: Writer, wrong: str) -> None:
    config.path.write_text(f'[kafka]\nbootstrap_servers = "x:1"\n{wrong}')
    used = load_config(config.path, {"KPE_HTTP__LISTEN": "nowhere"}, sections=("kafka", "log"))
    assert used.settings.kafka.bootstrap_servers == "x:1"
    with pytest.raises(ConfigError):
        load_config(config.path, {})


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("[observr]\n", "observr: there is no such section; there are alerts, control, http, kafka,"),
        ('[observer]\nintervall = "5s"\n', "observer.intervall: there is no such setting; there are name,"),
        ('[[sinks]]\nname = "k"\ntype = "kafka"\ntopics = "x"\n', "sinks.k.topics: there is no such"),
        ('[observer]\ninterval = "5 sec"\n', f'observer.interval: "5 sec" {DURATION}'),
        ("[observer]\ninterval = 5\n", f"observer.interval: 5 {DURATION}"),
        ('[outbox]\nmax_age = "36526d"\n', f'outbox.max_age: "36526d" {DURATION}'),
        ('[outbox]\nmax_bytes = "512"\n', 'outbox.max_bytes: "512" is not a size: a number and B, kB, MB'),
        ("[outbox]\npath = true\n", "outbox.path: true is not a text"),
        ('[control]\nenabled = "yes"\n', 'control.enabled: "yes" is not true or false'),
        ("[metrics]\nmax_topics = 0\n", "metrics.max_topics: 0 is not a whole number of at least 1"),
        ("[metrics]\nmax_topics = 1.5\n", "metrics.max_topics: 1.5 is not a whole number of at least 1"),
        ('[log]\nlevel = "all"\n', 'log.level: "all" is not one of "debug", "info", '),
        ('[observer]\ntopics = "("\n', 'observer.topics: "(" is not a regular expression'),
        ('[http]\nlisten = "9404"\n', 'http.listen: "9404" is not an address such as 127.0.0.1:9404'),
        ('[kafka]\nproperties = "x"\n', "kafka.properties: *** is not a table of librdkafka's properties"),
        (
            '[kafka.properties]\nbootstrap.servers = "x"\n',
            "kafka.properties.bootstrap.servers: set kafka.bootstrap_servers instead",
        ),
        ("observer = 5\n", "observer: has to be a section, [observer]"),
        ('sinks = "x"\n', "sinks: have to be sections, [[sinks]] each"),
        (
            '[[sinks]]\nname = "x"\n',
            'sinks.x.type: null: has to be one of "kafka", "webhook", "alertmanager"',
        ),
        ('[[sinks]]\nname = "x"\ntype = ["kafka"]\n', 'sinks.x.type: ["kafka"]: has to be one of "kafka"'),
        (
            '[[sinks]]\nname = "p"\ntype = "webhook"\n',
            "sinks.p.url: is missing; it has to be an http:// or https:// URL",
        ),
        ('[[sinks]]\ntype = "kafka"\n', "sinks.#1.name: is missing; it has to be a name of letters, digits"),
        ('[[sinks]]\nname = "a b"\ntype = "kafka"\n', 'sinks.#1.name: "a b" is not a name of letters'),
        (
            '[[sinks]]\nname = "a"\ntype = "kafka"\n[[sinks]]\nname = "a"\ntype = "kafka"\n',
            "sinks.a: there are two sinks of that name",
        ),
        (
            '[[sinks]]\nname = "a"\ntype = "kafka"\nredact = ["host"]\n',
            "sinks.a.redact: there is no such setting; there are name, type, topic, ",
        ),
        (
            '[[sinks]]\nname = "a"\ntype = "alertmanager"\nurls = "http://am:9093"\n',
            'sinks.a.urls: "http://am:9093" is not a list; each an http:// or https:// URL',
        ),
    ],
)
def test_what_is_wrong_is_told_by_path_and_what_it_must_be(file: str, problem: str, config: Writer) -> None:
    (told,) = config.problems(file)
    assert told.startswith(problem)


def test_a_wrong_variable_or_option_is_told_by_its_setting(config: Writer) -> None:
    problem = 'metrics.max_topics: "many" is not a whole number of at least 1'
    variable = "KPE_METRICS__MAX_TOPICS"
    assert config.problems("", {variable: "many"}) == [f"environment {variable}: {problem}"]
    assert config.problems("", overrides={"metrics.max_topics": "many"}) == [f"command line: {problem}"]
    user = "KPE_KAFKA__PROPERTIES__SASL_USERNAME"  # of what is no table
    (told,) = config.problems('[kafka]\nproperties = "x"\n', {user: "kpe"})
    assert told == "kafka.properties: *** is not a table of librdkafka's properties"
    (told,) = config.problems("", {"KPE_OBSERVR__INTERVAL": "1s"})
    assert told == "environment KPE_OBSERVR__INTERVAL: there is no such section"


def test_all_that_is_wrong_is_told_at_once(config: Writer) -> None:
    file = (
        '[observer]\nintervall = "5s"\ninterval = "soon"\n[outbox]\nmax_age = 7\n'
        '[[sinks]]\nname = "x"\ntype = "mail"\n[[sinks]]\nname = "y"\ntype = "webhook"\n'
    )
    problems = config.problems(file, {"KPE_HTTP__LISTEN": "nowhere"})
    told = [problem.removeprefix("environment KPE_HTTP__LISTEN: ") for problem in problems]
    assert [problem.split(": ")[0] for problem in told] == [
        "sinks.x.type", "observer.interval", "observer.intervall", "outbox.max_age", "http.listen",
        "sinks.y.url",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[observer\n", "not TOML: Expected"),
        (b"\xff\xfe", "not a text file in UTF-8"),
        (None, "No such file or directory"),
    ],
)
def test_a_file_that_can_not_be_read(content: bytes | None, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "kpe.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem) as refused:
        load_config(path, {})
    assert str(refused.value).startswith(f"{path}: ")
