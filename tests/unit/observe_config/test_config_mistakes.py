"""The service's configuration: what is refused, what is told of it, and that all of it is told at once."""

from pathlib import Path

import pytest

from kafka_partition_events.observe.config import ConfigError, load_config
from tests.config_kit import Writer

SINK_TYPE = 'sinks.x.type: has to be one of "kafka", "webhook", "alertmanager", "pagerduty", "smtp"'


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("[observr]\n", "observr: there is no such setting; did you mean observer?"),
        (
            '[observer]\nintervall = "5s"\n',
            "observer.intervall: there is no such setting; did you mean observer.interval?",
        ),
        (
            '[observer]\nlisten = "x:1"\n',
            "observer.listen: there is no such setting; did you mean http.listen?",
        ),
        (
            "[election]\nquorum = 3\n",
            "election.quorum: there is no such setting; there are enabled, topic, group, shared_topic",
        ),
        (
            '[[sinks]]\nname = "k"\ntype = "kafka"\ntopics = "x"\n',
            "sinks.k.topics: there is no such setting; did you mean sinks.k.topic?",
        ),
        (
            '[[sinks]]\nname = "k"\ntype = "kafka"\nbatch.size = 3\n',
            (
                "sinks.k.batch: there is no such setting; "
                "there are name, type, stream, topic, bootstrap_servers, properties, redact, max_delay, "
                "max_age"
            ),
        ),
    ],
)
def test_an_unknown_key_names_the_nearest_one(file: str, problem: str, config: Writer) -> None:
    assert config.problems(file) == [f"kpe.toml: {problem}"]


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("KPE_OBSERVER__INTERVALL", "did you mean KPE_OBSERVER__INTERVAL?"),
        ("KPE_OBSERVR__INTERVAL", "did you mean KPE_OBSERVER__INTERVAL?"),
        ("KPE_ELECTION__QUORUM", "there are ENABLED, TOPIC, GROUP, SHARED_TOPIC"),
    ],
)
def test_an_unknown_variable_names_the_nearest_one(variable: str, hint: str, config: Writer) -> None:
    assert config.problems("", {variable: "x"}) == [
        f"environment: {variable}: there is no such setting; {hint}"
    ]


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (
            '[observer]\ninterval = "5 sec"\n',
            (
                'observer.interval: "5 sec" is not a duration: a number and ms, s, m, h or d, '
                "such as 500ms or 10m"
            ),
        ),
        (
            "[observer]\ninterval = 5\n",
            "observer.interval: 5 is not a duration: a number and ms, s, m, h or d, such as 500ms or 10m",
        ),
        (
            '[outbox]\nmax_bytes = "512"\n',
            (
                'outbox.max_bytes: "512" is not a size: a number and B, kB, MB, GB, KiB, MiB or GiB, '
                "such as 512MiB"
            ),
        ),
        ("[outbox]\npath = true\n", "outbox.path: true is not a text"),
        ('[election]\nenabled = "yes"\n', 'election.enabled: "yes" is not true or false'),
        ("[metrics]\nmax_topics = 0\n", "metrics.max_topics: 0 is not a whole number of at least 1"),
        ("[metrics]\nmax_topics = 1.5\n", "metrics.max_topics: 1.5 is not a whole number of at least 1"),
        (
            '[metrics]\ngranularity = "all"\n',
            'metrics.granularity: "all" is not one of "cluster", "topic", "partition"',
        ),
        (
            '[kafka]\nclient = "java"\n',
            'kafka.client: "java" is not one of "kafka-python", "confluent-kafka"',
        ),
        ('[observer]\ntopics = "("\n', 'observer.topics: "(" is not a regular expression'),
        ('[http]\nlisten = "9404"\n', 'http.listen: "9404" is not an address such as 127.0.0.1:9404'),
        ('[http]\nlisten = "x:http"\n', 'http.listen: "x:http" is not an address such as 127.0.0.1:9404'),
        (
            '[kafka.properties]\n"client.id" = ["a"]\n',
            'kafka.properties.client.id: ["a"] is not a text, a number, true or false',
        ),
        ('[kafka]\nproperties = "x"\n', "kafka.properties: has to be a table of librdkafka's properties"),
        (
            '[kafka.properties]\nbootstrap.servers = "x"\n',
            "kafka.properties.bootstrap.servers: set kafka.bootstrap_servers instead",
        ),
        ("observer = 5\n", "observer: has to be a section, [observer]"),
        ('sinks = "x"\n', "sinks: have to be sections, [[sinks]] each"),
        ('[sinks]\nname = "x"\n', "sinks: have to be sections, [[sinks]] each"),
        (
            '[[sinks]]\nname = "x"\n',
            'sinks.x.type: has to be one of "kafka", "webhook", "alertmanager", "pagerduty", "smtp"',
        ),
        (
            '[[windows]]\nname = "x"\nreason = "r"\nweekly = "sunday"\nlasts = "1h"\n',
            (
                'windows.x.weekly: "sunday" is not a day and a time such as "sun 02:30" (UTC) '
                'or "sun 02:30 Europe/Berlin"'
            ),
        ),
        (
            '[[windows]]\nname = "x"\nreason = "r"\nweekly = "sun 02:30 Europe/Berlni"\nlasts = "1h"\n',
            (
                'windows.x.weekly: "sun 02:30 Europe/Berlni" is not a day and a time such as "sun 02:30" '
                '(UTC) or "sun 02:30 Europe/Berlin"'
            ),
        ),
        (
            '[incidents.topic_hold_downs]\n"a.*" = 5\n',
            (
                "incidents.topic_hold_downs.a.*: 5 is not a duration: a number and ms, s, m, h or d, "
                "such as 500ms or 10m"
            ),
        ),
        (
            '[[sinks]]\nname = "x"\ntype = ["kafka"]\n',
            'sinks.x.type: has to be one of "kafka", "webhook", "alertmanager", "pagerduty", "smtp"',
        ),
    ],
)
def test_a_wrong_value_is_told_with_what_it_has_to_be(file: str, problem: str, config: Writer) -> None:
    assert config.problems(file) == [f"kpe.toml: {problem}"]


def test_a_wrong_variable_is_told_by_its_name() -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(None, {"KPE_METRICS__MAX_TOPICS": "many"})
    assert str(refused.value) == (
        'environment KPE_METRICS__MAX_TOPICS: metrics.max_topics: "many" is not a whole number of at least 1'
    )


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('[kafka]\nclient = "kafka_python"\n', 'did you mean "kafka-python"?'),
        ('[kafka]\nclient = "Confluent"\n', 'did you mean "confluent-kafka"?'),
        ('[metrics]\ngranularity = "topics"\n', 'did you mean "topic"?'),
        ('[[sinks]]\nname = "x"\ntype = "webhok"\n', 'did you mean "webhook"?'),
    ],
)
def test_of_fixed_words_the_nearest_is_named(setting: str, told: str, config: Writer) -> None:
    (problem,) = config.problems(setting)
    assert problem.endswith(f"; {told}")


def test_so_it_is_on_the_command_line_and_in_the_environment(config: Writer) -> None:
    wrong = "kafkapython"
    told = (
        f'kafka.client: "{wrong}" is not one of "kafka-python", "confluent-kafka"; '
        'did you mean "kafka-python"?'
    )
    assert config.problems(overrides={"kafka.client": wrong}) == [f"command line: {told}"]
    variable = "KPE_KAFKA__CLIENT"
    assert config.problems(environ={variable: wrong}) == [f"environment {variable}: {told}"]


def test_all_that_is_wrong_is_told_at_once(config: Writer) -> None:
    file = (
        '[observer]\nintervall = "5s"\n[outbox]\nmax_age = 7\n'
        '[[sinks]]\nname = "x"\ntype = "mail"\n[[sinks]]\nname = "y"\ntype = "webhook"\n'
    )
    problems = config.problems(file, {"KPE_HTTP__LISTEN": "nowhere"})
    assert [problem.split(": ")[1].split(" ")[0] for problem in problems] == [
        "observer.intervall",
        "sinks.x.type",
        "outbox.max_age",
        "http.listen",
        "is",  # sinks.y.url: is missing
    ]


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
