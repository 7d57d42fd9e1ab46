"""The shipped routes and units, as far as their own tools go: paths and commands in them exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.change.tracker import LEAVING_S
from tests.prometheus_kit import ASSETS, all_rules

ROUTES = ASSETS / "alertmanager" / "alertmanager.yml"
UNIT = ASSETS / "systemd" / "kpe.service"
TRACKER_UNIT = UNIT.with_name("kpe-tracker.service")
UNITS = pytest.mark.parametrize("path", [UNIT, TRACKER_UNIT], ids=lambda path: path.stem)

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]


def done(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=60)


# -- Alertmanager --------------------------------------------------------------------------------------


def test_alertmanager_accepts_the_routes(amtool: str) -> None:
    checked = done(amtool, "check-config", ROUTES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


SEVERITIES = sorted((rule["alert"], rule["labels"]["severity"]) for rule in all_rules() if "alert" in rule)
RECEIVERS = {"critical": "pager,chat", "warning": "chat", "info": "none"}


@pytest.mark.parametrize(("alert", "severity"), SEVERITIES)
def test_an_alert_is_routed_by_its_severity(amtool: str, alert: str, severity: str) -> None:
    routed = done(
        amtool, "config", "routes", "test", f"--config.file={ROUTES}",
        f"alertname={alert}", f"severity={severity}", "kafka_cluster=c-1",
    )  # fmt: skip
    assert (routed.returncode, routed.stdout.split()) == (0, [RECEIVERS[severity]]), routed.stderr


# -- systemd -------------------------------------------------------------------------------------------


@UNITS
def test_systemd_accepts_the_unit(systemd_analyze: str, tmp_path: Path, path: Path) -> None:
    unit = path.read_text(encoding="utf-8")
    program = "ExecStart=/opt/kpe/bin/kpe "
    assert unit.count(program) == 1
    (tmp_path / path.name).write_text(unit.replace(program, f"ExecStart={sys.executable} "), encoding="utf-8")
    checked = done(systemd_analyze, "verify", "--man=no", tmp_path / path.name)
    assert checked.returncode == 0, checked.stderr
    assert path.name not in checked.stderr, "a directive that systemd ignores"


@UNITS
def test_a_unit_is_as_little_exposed_as_a_service_on_the_network_can_be(
    systemd_analyze: str, path: Path
) -> None:
    judged = done(systemd_analyze, "security", "--offline=true", "--no-pager", path)
    if (found := re.search(r"exposure level for .*: ([\d.]+)", judged.stdout)) is None:
        pytest.skip(f"this systemd-analyze does not judge files: {judged.stderr[:200]}")
    assert float(found[1]) <= 1.1


def test_the_unit_uses_what_its_installation_makes() -> None:
    unit = UNIT.read_text(encoding="utf-8")
    environment, extra = re.findall(r"venv (\S+) && \S+/pip install '\S+\[(\w+)\]'", unit)[0]
    assert f"ExecStart={environment}/bin/kpe observe --config /etc/kpe/kpe.toml" in unit.splitlines()
    assert extra in PROJECT["optional-dependencies"]
    assert "kpe" in PROJECT["scripts"]
    state = re.findall(r"^StateDirectory=(\w+)$", unit, re.MULTILINE)
    assert re.findall(r"^WorkingDirectory=(\S+)$", unit, re.MULTILINE) == [f"/var/lib/{state[0]}"]
    assert f'path = "/var/lib/{state[0]}/' in unit


def directives(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] not in {"", "#"}]


def test_both_units_are_shut_in_alike() -> None:
    hardened = directives(UNIT)[directives(UNIT).index("NoNewPrivileges=yes") :]
    assert len(hardened) > 15
    assert directives(TRACKER_UNIT)[-len(hardened) :] == hardened
    assert "DynamicUser=yes" in directives(TRACKER_UNIT)


def test_the_trackers_unit_uses_what_its_installation_makes() -> None:
    unit = TRACKER_UNIT.read_text(encoding="utf-8")
    (environment,) = re.findall(r"venv (\S+)$", unit, re.MULTILINE)
    (extras,) = re.findall(rf"{environment}/bin/pip install '\S+\[(\S+)\]'", unit)
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    ((variable, file),) = re.findall(r"echo '(\w+)=-b \S+' > (\S+)", unit)
    assert f"EnvironmentFile={file}" in directives(TRACKER_UNIT)
    assert f"ExecStart={environment}/bin/kpe tracker ${variable}" in directives(TRACKER_UNIT)
    (patience,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(patience) > LEAVING_S


def test_the_tracker_takes_a_password_as_its_unit_hands_it_over(capsys: pytest.CaptureFixture[str]) -> None:
    unit = TRACKER_UNIT.read_text(encoding="utf-8")
    (credential,) = re.findall(r"LoadCredential=([\w-]+):", unit)
    (option,) = re.findall(r"^#   -X (\S+)$", unit, re.MULTILINE)
    path = f"/run/credentials/{TRACKER_UNIT.name}/{credential}"
    assert option == f"sasl.password_file={path}"
    assert run(["tracker", "-b", "localhost:9092", "-X", option]) == 2
    assert capsys.readouterr().err.startswith(f"kpe: -X sasl.password_file: {path}: No such file")
