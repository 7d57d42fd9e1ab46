"""The service's configuration: who wins, what is shown, and what is refused, all at once."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from kafka_partition_events.incidents.reader import READER
from kafka_partition_events.observe.config import Config, ConfigError, load_config
from kafka_partition_events.observe.kinds import masked
from kafka_partition_events.observe.quantities import parse_duration, parse_size
from kafka_partition_events.observe.settings import (
    KafkaSinkSettings,
    Settings,
    WebhookSinkSettings,
    Window,
)

WHOLE = """
[kafka]
bootstrap_servers = "broker-1:9093,broker-2:9093"
properties = { "security.protocol" = "SASL_SSL", "sasl.username" = "kpe" }

[observer]
name = "noc-1"
interval = "5s"
topics = "orders|payments"

[outbox]
path = "/var/lib/kpe/outbox.db"
max_bytes = "1GiB"
max_age = "2d"

[http]
listen = "[::1]:9500"

[metrics]
granularity = "cluster"
max_topics = 10
compat = "kafka_exporter"

[incidents]
hold_down = "1m"
flap_transitions = 6
flap_window = "20m"
topic_hold_downs = { "audit.*" = "5m" }

[election]
enabled = true

[[sinks]]
name = "journal"
type = "kafka"

[[sinks]]
name = "pager"
type = "webhook"
url = "https://pager.example/hook/s3cret"
format = "slack"
secrets = ["whsec_one", "whsec_two"]
headers = { Authorization = "Bearer s3cret" }

[[windows]]
name = "patch-sunday"
reason = "the machines get their updates"
weekly = "sun 02:30"
lasts = "90m"
broker = 2
"""


class Writer:
    """Writes configurations and reads them."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "kpe.toml"

    def load(
        self,
        text: str = "",
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> Config:
        self.path.write_text(text)
        return load_config(self.path, environ or {}, overrides)

    def problems(self, text: str = "", environ: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ConfigError) as refused:
            self.load(text, environ)
        return [problem.replace(f"file {self.path}", "kpe.toml") for problem in refused.value.problems]


@pytest.fixture
def config(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


def origin(config: Config, key: str) -> str:
    (value,) = (value for value in config.values if value.key == key)
    return value.origin


def text(config: Config, key: str) -> str:
    (value,) = (value for value in config.values if value.key == key)
    return value.value


# -- values ------------------------------------------------------------------------------------------------


def test_without_anything_there_are_defaults() -> None:
    config = load_config(None, {})
    assert config.settings == Settings()
    assert config.settings.observer.interval == 10.0
    assert config.settings.outbox.max_bytes == 512 * 2**20
    assert config.settings.outbox.max_age == 7 * 86_400.0
    assert config.settings.http.listen == ("127.0.0.1", 9404)
    assert config.settings.election.enabled is False
    assert {value.origin for value in config.values} == {"default"}
    assert (text(config, "kafka.bootstrap_servers"), text(config, "observer.interval")) == ("", '"10s"')


def test_a_whole_file(config: Writer) -> None:
    settings = config.load(WHOLE).settings
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
    assert origin(found, "outbox.path") == "default"


def test_the_environment_can_say_all_kinds_of_values() -> None:
    settings = load_config(
        None,
        {
            "KPE_KAFKA__BOOTSTRAP_SERVERS": "a:1,b:2",
            "KPE_ELECTION__ENABLED": "true",
            "KPE_METRICS__MAX_TOPICS": "7",
            "KPE_OUTBOX__MAX_BYTES": "1MiB",
            "KPE_HTTP__LISTEN": "0.0.0.0:80",
        },
    ).settings
    assert settings.kafka.bootstrap_servers == "a:1,b:2"
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


# -- secrets -----------------------------------------------------------------------------------------------


def test_secrets_are_masked(config: Writer) -> None:
    found = config.load(WHOLE, {"KPE_KAFKA__PROPERTIES__SASL_PASSWORD": "hunter2"})
    assert found.settings.kafka.properties["sasl.password"] == "hunter2"
    assert text(found, "kafka.properties.sasl.password") == "***"
    assert text(found, "kafka.properties.sasl.username") == '"kpe"'
    assert text(found, "sinks.pager.url") == "https://pager.example/***"
    assert text(found, "sinks.pager.secrets") == "***"
    assert text(found, "sinks.pager.headers.Authorization") == "***"
    told = "".join(value.value + value.origin for value in found.values)
    assert not [secret for secret in ("hunter2", "s3cret", "whsec") if secret in told]


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ("https://user:pw@hooks.example:8443/T0/B0?key=1", "https://hooks.example:8443/***"),
        ("http://[::1]:99999/", "***"),
        ("ftp://x/y", "***"),
        ("hunter2", "***"),
        (["a"], "***"),
    ],
)
def test_of_a_secret_url_only_the_host_is_told(secret: object, told: str) -> None:
    assert masked(secret) == told


def test_a_secret_may_come_from_a_file(config: Writer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    (tmp_path / "url").write_text("https://pager.example/x\n")
    (tmp_path / "secrets").write_text("whsec_new\nwhsec_old\n")
    (tmp_path / "token").write_text("Bearer s3cret\n")
    (tmp_path / "page.j2").write_text('{"text": {{ name | tojson }}}\n')
    found = config.load(
        f'[kafka.properties]\n"sasl.password_file" = "{tmp_path}/password"\n'
        f'[[sinks]]\nname = "pager"\ntype = "webhook"\nurl_file = "{tmp_path}/url"\n'
        f'secrets_file = "{tmp_path}/secrets"\nheaders.Authorization_file = "{tmp_path}/token"\n'
        f'format = "template"\ntemplate_file = "{tmp_path}/page.j2"\n'
    )
    (sink,) = found.settings.sinks
    assert isinstance(sink, WebhookSinkSettings)
    assert found.settings.kafka.properties == {"sasl.password": "hunter2"}
    assert (sink.url, sink.secrets) == ("https://pager.example/x", ("whsec_new", "whsec_old"))
    assert (sink.headers, sink.template) == (
        {"Authorization": "Bearer s3cret"},
        '{"text": {{ name | tojson }}}',
    )
    assert origin(found, "sinks.pager.url") == f"file {config.path}: {tmp_path}/url"
    assert text(found, "kafka.properties.sasl.password") == "***"


def test_the_environment_may_name_such_a_file_too(config: Writer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    (tmp_path / "url").write_text("https://pager.example/from-file")
    found = config.load(
        '[[sinks]]\nname = "pager"\ntype = "webhook"\nurl = "https://pager.example/inline"\n',
        {
            "KPE_KAFKA__PROPERTIES__SASL_PASSWORD_FILE": f"{tmp_path}/password",
            "KPE_KAFKA__PROPERTIES__SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE_FILE": (
                f"{tmp_path}/password"
            ),
            "KPE_KAFKA__PROPERTIES__SASL_OAUTHBEARER_ASSERTION_JWT_TEMPLATE_FILE": "/template.json",
            "KPE_SINKS__PAGER__URL_FILE": f"{tmp_path}/url",
        },
    )
    (sink,) = found.settings.sinks
    assert isinstance(sink, WebhookSinkSettings)
    assert sink.url == "https://pager.example/from-file"
    assert found.settings.kafka.properties == {
        "sasl.oauthbearer.assertion.jwt.template.file": "/template.json",
        "sasl.oauthbearer.assertion.private.key.passphrase": "hunter2",
        "sasl.password": "hunter2",
    }


def test_a_secret_file_that_is_not_there_is_told(config: Writer) -> None:
    assert config.problems('[kafka.properties]\n"sasl.password_file" = "/nowhere/password"\n') == [
        'kpe.toml: kafka.properties.sasl.password_file: "/nowhere/password": No such file or directory'
    ]


def test_a_secret_and_its_file_at_once_are_refused(config: Writer) -> None:
    sink = '[[sinks]]\nname = "p"\ntype = "webhook"\nurl = "https://x.example/"\nurl_file = "/x"\n'
    assert config.problems(sink)[0] == "kpe.toml: sinks.p.url: is given twice, as a value and as a file"


def test_a_wrong_secret_is_not_repeated(config: Writer) -> None:
    (problem,) = config.problems('[[sinks]]\nname = "p"\ntype = "webhook"\nurl = "hunter2"\n')
    assert problem == "kpe.toml: sinks.p.url: *** is not an http:// or https:// URL"


# -- what is refused ---------------------------------------------------------------------------------------


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
            "election.quorum: there is no such setting; there are enabled, topic, group",
        ),
        (
            '[[sinks]]\nname = "k"\ntype = "kafka"\ntopics = "x"\n',
            "sinks.k.topics: there is no such setting; did you mean sinks.k.topic?",
        ),
        (
            '[[sinks]]\nname = "k"\ntype = "kafka"\nbatch.size = 3\n',
            (
                "sinks.k.batch: there is no such setting; "
                "there are name, type, stream, topic, bootstrap_servers, properties"
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
        ("KPE_ELECTION__QUORUM", "there are ENABLED, TOPIC, GROUP"),
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
            '[[sinks]]\ntype = "kafka"\n',
            "sinks, number 1: name has to be a name of letters, digits, - and _",
        ),
        ('[[sinks]]\nname = "x"\n', 'sinks.x.type: has to be "kafka" or "webhook"'),
        (
            '[[windows]]\nname = "x"\nreason = "r"\nweekly = "sunday"\nlasts = "1h"\n',
            'windows.x.weekly: "sunday" is not a day and a time in UTC such as "sun 02:30"',
        ),
        (
            '[incidents.topic_hold_downs]\n"a.*" = 5\n',
            (
                "incidents.topic_hold_downs.a.*: 5 is not a duration: a number and ms, s, m, h or d, "
                "such as 500ms or 10m"
            ),
        ),
        ('[[sinks]]\nname = "x"\ntype = ["kafka"]\n', 'sinks.x.type: has to be "kafka" or "webhook"'),
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


def test_what_a_sink_needs_is_missed(config: Writer) -> None:
    assert config.problems('[[sinks]]\nname = "pager"\ntype = "webhook"\n') == [
        "sinks.pager.url: is missing; it has to be an http:// or https:// URL"
    ]


def test_two_sinks_can_not_be_told_apart(config: Writer) -> None:
    sinks = '[[sinks]]\nname = "a-b"\ntype = "kafka"\n[[sinks]]\nname = "A_b"\ntype = "kafka"\n'
    assert config.problems(sinks) == ["kpe.toml: sinks.A_b: there are two sinks of that name"]


def test_a_sink_can_not_have_the_name_of_another_reader_of_the_outbox(config: Writer) -> None:
    assert READER == "incidents"
    assert config.problems(f'[[sinks]]\nname = "{READER}"\ntype = "kafka"\n') == [
        "kpe.toml: sinks.incidents: the outbox has a reader of that name already"
    ]


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
