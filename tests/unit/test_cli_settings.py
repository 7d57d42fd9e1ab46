"""Where commands look for clusters: -b and -X, the environment, files, profiles; and groups of options."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common import profiles
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.settings import ClusterOptions, ControlOptions

Captured = pytest.CaptureFixture[str]
PROD = """
[kafka]
bootstrap_servers = "prod:9093"
[kafka.properties]
"sasl.username" = "noc"
[control]
bootstrap_servers = "audit:9093"
prefix = "staging."
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with two profiles, none of them in use."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("KPE_BOOTSTRAP_SERVERS", "KPE_CONFIG", "KPE_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "kpe").mkdir()
    (tmp_path / "kpe" / "prod.toml").write_text(PROD)
    (tmp_path / "kpe" / "test.toml").write_text('[kafka]\nbootstrap_servers = "test:9092"\n')
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

    def test_nobody_has_named_one(self) -> None:
        with pytest.raises(CliError, match="no brokers are named: give -b HOST:PORT, or choose a"):
            config()

    def test_is_that_of_a_profile(self) -> None:
        assert config(profile="prod") == {"bootstrap.servers": "prod:9093", "sasl.username": "noc"}

    def test_is_that_of_a_file(self, home: Path) -> None:
        assert config(file=f"{home}/kpe/test.toml") == {"bootstrap.servers": "test:9092"}

    def test_a_file_and_a_profile_may_be_different_clusters(self, home: Path) -> None:
        with pytest.raises(CliError, match=r"--config \(or KPE_CONFIG\) names a file and --profile"):
            config(file=f"{home}/kpe/test.toml", profile="prod")

    def test_a_variable_that_is_not_set_is_no_profile(self) -> None:
        profiles.use("prod")
        with pytest.raises(CliError, match="'' is no profile's name"):
            config(profile="")

    def test_is_that_of_the_profile_in_use(self) -> None:
        profiles.use("prod")
        assert config()["bootstrap.servers"] == "prod:9093"
        assert config(profile="test") == {"bootstrap.servers": "test:9092"}

    def test_that_is_named_is_not_given_the_login_of_the_profile_in_use(self) -> None:
        profiles.use("prod")
        assert config(bootstrap="elsewhere:1") == {"bootstrap.servers": "elsewhere:1"}
        assert config(bootstrap="prod-2:9093", profile="prod")["sasl.username"] == "noc"


class TestControlTopics:
    def test_are_on_the_cluster_in_question(self) -> None:
        found = ControlOptions(bootstrap="a:1", client_options=["client.id=x"]).find()
        assert found.control == found.config == {"bootstrap.servers": "a:1", "client.id": "x"}
        assert found.prefix == "kpe."

    def test_are_where_the_profile_says(self) -> None:
        found = ControlOptions(profile="prod").find()
        assert (found.control, found.prefix) == ({"bootstrap.servers": "audit:9093"}, "staging.")
        assert ControlOptions(profile="prod", prefix="kpe.").find().prefix == "kpe."

    def test_are_where_an_option_says(self) -> None:
        options = ControlOptions(bootstrap="a:1", control_bootstrap="b:1", control_options=["client.id=y"])
        assert options.find().control == {"bootstrap.servers": "b:1", "client.id": "y"}


class TestProfiles:
    def test_are_listed(self, capsys: Captured) -> None:
        assert run(["profile", "use", "prod"]) == 0
        assert capsys.readouterr().err == "kpe: profile prod is in use: prod:9093\n"
        assert run(["profile", "ls", "--output", "table"]) == 0
        table = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert table == [["NAME", "IN", "USE", "BROKERS"], ["prod", "*", "prod:9093"], ["test", "test:9092"]]
        assert run(["profile", "use", "--none"]) == 0
        assert profiles.in_use() is None

    @pytest.mark.parametrize("name", ["nosuch", "../prod", ".hidden", ""])
    def test_what_is_no_profile_is_not_used(self, name: str, capsys: Captured) -> None:
        assert run(["profile", "use", name]) == 2
        assert "profile" in capsys.readouterr().err
        assert profiles.in_use() is None

    def test_one_of_the_two_is_said(self, capsys: Captured) -> None:
        assert run(["profile", "use"]) == 2
        assert "say which profile: a NAME, or --none" in capsys.readouterr().err

    def test_where_there_are_none_it_says_so(self, home: Path, capsys: Captured) -> None:
        for name in profiles.names():
            profiles.path_of(name).unlink()
        assert run(["profile", "ls"]) == 0
        assert f"note: there are no profiles in {home}/kpe" in capsys.readouterr().err

    def test_one_that_is_gone_is_missed(self, capsys: Captured) -> None:
        profiles.use("prod")
        profiles.path_of("prod").unlink()
        assert run(["watch"]) == 2
        assert "there is no profile prod: " in capsys.readouterr().err

    def test_a_plugin_says_unknown_where_its_configuration_is_wrong(
        self, home: Path, capsys: Captured
    ) -> None:
        (home / "kpe" / "test.toml").write_text("[kafka]\nbrokers = 1\n")
        assert run(["check", "--profile", "test"]) == 3
        assert capsys.readouterr().out.startswith("KPE UNKNOWN - the configuration is wrong")


def test_a_group_of_options_arrives_as_one_object() -> None:
    @frozen(kw_only=True)
    class Group:
        first: int = 1
        second: str = "b"

    seen = []

    @with_options
    def command(word: str, *, own: int = 0, group: Group) -> None:
        seen.append((word, own, group))

    command(word="w", own=2, first=3, second="c")
    assert seen == [("w", 2, Group(first=3, second="c"))]
    assert list(command.__annotations__) == ["word", "own", "first", "second"]


def test_the_environment_names_a_cluster(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("KPE_PROFILE", "prod")
    assert run(["config", "show", "--changed"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"key": "kafka.bootstrap_servers", "value": "prod:9093"}.items() <= rows[0].items()


def test_one_profile_that_cannot_be_read_hides_no_other_one(home: Path, capsys: Captured) -> None:
    (home / "kpe" / "broken.toml").write_text("[kafka")
    assert run(["profile", "ls", "--output", "json"]) == 1
    out, err = capsys.readouterr()
    assert [(each["name"], each["bootstrap_servers"]) for each in json.loads(out)] == [
        ("broken", None), ("prod", "prod:9093"), ("test", "test:9092"),
    ]  # fmt: skip
    assert "broken.toml: not TOML" in err
    assert run(["change", "ls", "--profile", "broken"]) == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("--output", "xml"), "'xml' is not one of 'table', 'json', 'jsonl', 'yaml'; see"),
        (("--topic", "t", "--to", "-3"), "'--to': it should be greater than or equal to 1; see"),
    ],
)
def test_what_is_wrong_with_a_value_is_told_in_our_words(
    wrong: tuple[str, ...], words: str, capsys: Captured
) -> None:
    assert run(["change", "plan", *wrong]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "Value error" not in told


class TestOptionsThatAreCode:
    @pytest.mark.parametrize("option", ["plugin.library.paths=x", "sasl.kerberos.kinit.cmd=sh"])
    def test_are_refused(self, option: str, capsys: Captured) -> None:
        assert run(["observe", "-b", "x:1", "-X", option]) == 2
        name = option.partition("=")[0]
        told = f"kpe: command line: kafka.properties.{name}: this setting runs code"
        assert capsys.readouterr().err.startswith(told)
        with pytest.raises(CliError, match=f"--control-option {name}: this setting runs code"):
            ControlOptions(bootstrap="a:1", control_bootstrap="b:1", control_options=[option]).find()

    def test_are_taken_where_the_configuration_says_so(self, home: Path) -> None:
        (home / "code.toml").write_text('[kafka]\nallow_code = true\nbootstrap_servers = "x:1"\n')
        options = ["plugin.library.paths=x"]
        found = ControlOptions(
            file=str(home / "code.toml"),
            client_options=options,
            control_bootstrap="b:1",
            control_options=options,
        ).find()
        assert found.config["plugin.library.paths"] == found.control["plugin.library.paths"] == "x"
