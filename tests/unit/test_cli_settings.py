"""Where commands look for clusters: -b and -X, the environment, files; and groups of options."""

from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.settings import ClusterOptions, ControlOptions

Captured = pytest.CaptureFixture[str]
PROD = """
[kafka]
bootstrap_servers = "prod:9093"
[kafka.properties]
"sasl.username" = "noc"
[control]
prefix = "staging."
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with two configurations, none of them in the environment."""
    for name in ("KPE_BOOTSTRAP_SERVERS", "KPE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "prod.toml").write_text(PROD)
    (tmp_path / "test.toml").write_text('[kafka]\nbootstrap_servers = "test:9092"\n')
    return tmp_path


def config(**given: Any) -> dict[str, str]:
    return ClusterOptions(**given).config()


class TestACluster:
    def test_is_named(self) -> None:
        given = config(bootstrap="a:1", client_options=["sasl.username=p=q"])
        assert given == {"bootstrap.servers": "a:1", "sasl.username": "p=q"}

    @pytest.mark.parametrize("bootstrap", ["", " ", ",", ", ,"])
    def test_must_be_named_if_one_is(self, bootstrap: str) -> None:
        with pytest.raises(CliError, match="no broker is given; write -b HOST:PORT"):
            config(bootstrap=bootstrap)

    @pytest.mark.parametrize("environment", [{}, {"KPE_CONFIG": ""}])
    def test_nobody_has_named_one(self, environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, empty in environment.items():
            monkeypatch.setenv(name, empty)
        with pytest.raises(CliError, match="no brokers are named: give -b HOST:PORT, or set bootstrap_serv"):
            config()

    def test_is_that_of_the_environment(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KPE_CONFIG", f"{home}/prod.toml")
        assert config()["bootstrap.servers"] == "prod:9093"
        assert config(file=f"{home}/test.toml") == {"bootstrap.servers": "test:9092"}
        monkeypatch.setenv("KPE_BOOTSTRAP_SERVERS", "prod-2:9093")
        assert config(bootstrap="prod-2:9093") == {  # as typer reads the variable
            "bootstrap.servers": "prod-2:9093",
            "sasl.username": "noc",
        }

    def test_that_is_typed_is_not_given_the_login_of_the_environment(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KPE_CONFIG", f"{home}/prod.toml")
        assert config(bootstrap="elsewhere:1") == {"bootstrap.servers": "elsewhere:1"}
        assert config(bootstrap="prod-2:9093", file=f"{home}/prod.toml")["sasl.username"] == "noc"


def test_control_topics_are_called_as_the_file_says(home: Path) -> None:
    file = f"{home}/prod.toml"
    assert ControlOptions(file=file).find().prefix == "staging."
    assert ControlOptions(file=file, prefix="kpe.").find().prefix == "kpe."


def test_a_plugin_says_unknown_where_its_configuration_is_wrong(home: Path, capsys: Captured) -> None:
    (home / "test.toml").write_text("[kafka]\nbrokers = 1\n")
    assert run(["check", "--config", f"{home}/test.toml"]) == 3
    assert capsys.readouterr().out.startswith("KPE UNKNOWN - the configuration is wrong")


class TestOptionsThatAreCode:
    @pytest.mark.parametrize("option", ["plugin.library.paths=x", "sasl.kerberos.kinit.cmd=sh"])
    def test_are_refused(self, option: str, capsys: Captured) -> None:
        assert run(["observe", "-b", "x:1", "-X", option]) == 2
        name = option.partition("=")[0]
        told = f"kpe: command line: kafka.properties.{name}: this setting runs code"
        assert capsys.readouterr().err.startswith(told)

    def test_are_taken_where_the_configuration_says_so(self, home: Path) -> None:
        (home / "code.toml").write_text('[kafka]\nallow_code = true\nbootstrap_servers = "x:1"\n')
        options = ["plugin.library.paths=x"]
        found = config(file=str(home / "code.toml"), client_options=options)
        assert found["plugin.library.paths"] == "x"
