"""`kpe assets export`: the files are there, what is yours is kept."""

import contextlib
import re
import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
import yaml

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.spark.app import spark_app
from kafka_partition_events.observe.config import load_config
from kafka_partition_events.observe.settings import Kafka, Settings

Captured = pytest.CaptureFixture[str]
SPARK: Any = typer.main.get_group(spark_app).commands
OURS = ("kpe.example.toml", "systemd/kpe.service", "systemd/kpe-tracker.service")


def test_everything_is_written(tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "new" / "kpe"
    assert run(["assets", "export", str(target)]) == 0
    told = capsys.readouterr().out.splitlines()
    written = sorted(str(path) for path in target.rglob("*") if path.is_file())
    assert sorted(line.split(maxsplit=1)[1] for line in told) == written
    assert {str(target / name) for name in OURS} <= set(written)
    assert not [path for path in written if "__pycache__" in path or path.endswith("generate.py")]
    assert run(["assets", "export", str(target)]) == 0
    assert {line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()} == {"the same"}


def test_what_differs_is_kept_unless_forced(tmp_path: Path, capsys: Captured) -> None:
    mine = tmp_path / "kpe.example.toml"
    mine.write_text("mine")
    assert run(["assets", "export", str(tmp_path)]) == 1
    told = capsys.readouterr()
    assert f"kept      {mine}" in told.out
    assert told.err == "kpe: note: files that differ were kept; --force overwrites them\n"
    assert mine.read_text() == "mine"
    assert (tmp_path / "systemd" / "kpe.service").exists()
    assert run(["assets", "export", str(tmp_path), "--force"]) == 0
    assert mine.read_text() != "mine"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    precious, target = tmp_path / "precious", tmp_path / "kpe"
    precious.write_text("mine")
    target.mkdir()
    (target / "kpe.example.toml").symlink_to(precious)
    (target / "asyncapi.json").symlink_to(tmp_path / "nowhere")
    assert run(["assets", "export", str(target)]) == 1
    assert (target / "kpe.example.toml").is_symlink()
    assert run(["assets", "export", str(target), "--force"]) == 0
    assert not (target / "kpe.example.toml").is_symlink()
    assert (precious.read_text(), (tmp_path / "nowhere").exists()) == ("mine", False)


def test_a_place_where_nothing_can_be_written(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").write_text("")
    assert run(["assets", "export", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    run(["assets", "export", str(tmp_path)])
    return tmp_path


def test_the_example_is_a_configuration_of_defaults(exported: Path) -> None:
    settings = load_config(exported / "kpe.example.toml", {}).settings
    assert settings == Settings(kafka=Kafka(bootstrap_servers="localhost:9092"))


def test_so_is_what_it_has_commented_out(exported: Path, tmp_path: Path) -> None:
    for secret in ("kpe-password", "hook-url", "hook-signing"):
        (tmp_path / secret).write_text("https://pager.example/x")
    (tmp_path / "hook.j2").write_text("{{ name }}")
    text = (exported / "kpe.example.toml").read_text().replace("/run/secrets/", f"{tmp_path}/")
    text = text.replace("/etc/kpe/hook.j2", f"{tmp_path}/hook.j2")
    words = "An ", "`k", "The ", "Durations", "librdkafka", "Every", "What", "One", "Events to"
    prose = tuple(f"# {word}" for word in words)
    lines = [line for line in text.splitlines() if not line.startswith(prose)]
    (tmp_path / "all.toml").write_text("\n".join(line.removeprefix("# ") for line in lines))
    settings = load_config(tmp_path / "all.toml", {}).settings
    assert [sink.name for sink in settings.sinks] == ["events", "hook", "alerts"]
    assert settings.kafka.properties["sasl.password"] == "https://pager.example/x"
    assert settings.http.client_ca == "/etc/kpe/clients-ca.pem"


# -- of the fleet tables -------------------------------------------------------------------------------


def accepted(arguments: list[str]) -> bool:
    """Tell whether the command line takes them; nothing is run."""
    name, *options = arguments
    return bool(SPARK[name].make_context(name, options).params)


def test_the_spark_application_runs_the_pipeline(exported: Path) -> None:
    manifest = yaml.safe_load((exported / "spark" / "fleet.sparkapplication.yml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    spec = manifest["spec"]
    assert accepted(spec["arguments"])
    assert spec["mainApplicationFile"].endswith("kafka_partition_events/spark/submit/kpe_spark.py")
    port = spec["arguments"][spec["arguments"].index("--metrics-listen") + 1].rpartition(":")[2]
    assert str(spec["driver"]["ports"][0]["containerPort"]) == port
    assert spec["driver"]["annotations"]["prometheus.io/port"] == port


def test_the_dags_run_commands_that_there_are(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: dict[str, str] = {}

    def operator(task_id: str, bash_command: str, **how: object) -> None:
        commands[task_id] = bash_command

    airflow: dict[str, dict[str, object]] = {
        "airflow.providers.standard.operators.bash": {"BashOperator": operator},
        "airflow.sdk": {"DAG": lambda name, **how: contextlib.nullcontext()},
    }
    for name, content in airflow.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    runpy.run_path(str(exported / "airflow" / "kpe_fleet.py"))
    assert set(commands) == {"fleet", "maintain"}
    for command in commands.values():
        program, wing, *arguments = shlex.split(command)
        assert (program, wing) == ("kpe", "spark")
        assert accepted(arguments)


def test_dbt_and_views_know_the_same_tables(exported: Path) -> None:
    models = exported / "dbt" / "models" / "kpe"
    described = {model["name"] for model in yaml.safe_load((models / "gold.yml").read_text())["models"]}
    sources = yaml.safe_load((models / "sources.yml").read_text())["sources"][0]["tables"]
    assert {path.stem for path in models.glob("*.sql")} == described
    assert {table["name"] for table in sources} == {f"gold_{name}" for name in described}
    for name in described:
        assert f"kpe_gold('{name}')" in (models / f"{name}.sql").read_text()
    views = (exported / "spark" / "views.sql").read_text()
    assert set(re.findall(r"VIEW kpe\.(\w+) ", views)) == described
