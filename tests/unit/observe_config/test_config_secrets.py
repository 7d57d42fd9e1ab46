"""The service's configuration: secrets are masked, and may stand in files of their own."""

from pathlib import Path

import pytest

from kafka_partition_events.observe.setting_kinds import masked
from kafka_partition_events.observe.sink_settings import WebhookSinkSettings
from tests.config_kit import WHOLE, Writer, origin, text


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
