"""The shipped routes, unit and image, as far as their own tools go: paths and commands in them exist.

Nothing here builds the image: that takes a container engine. What its instructions name is looked up.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest
from prometheus_client import CollectorRegistry

from kafka_partition_events import __version__
from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.change.tracker import LEAVING_S
from kafka_partition_events.observe.http import HttpServer
from kafka_partition_events.observe.settings import Http
from tests.prometheus_kit import ASSETS, all_rules

ROUTES = ASSETS / "alertmanager" / "alertmanager.yml"
UNIT = ASSETS / "systemd" / "kpe.service"
TRACKER_UNIT = UNIT.with_name("kpe-tracker.service")
UNITS = pytest.mark.parametrize("path", [UNIT, TRACKER_UNIT], ids=lambda path: path.stem)
CONTAINERFILE = ASSETS / "container" / "Containerfile"

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
WHEEL = f"{PROJECT['name'].replace('-', '_')}-{__version__}-py3-none-any.whl"


def done(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=60)


# -- Alertmanager --------------------------------------------------------------------------------------


def test_alertmanager_accepts_the_routes(amtool: str) -> None:
    checked = done(amtool, "check-config", ROUTES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


SEVERITIES = sorted((rule["alert"], rule["labels"]["severity"]) for rule in all_rules() if "alert" in rule)
RECEIVERS = {"critical": "pager,chat", "warning": "chat", "info": "nobody"}


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


# -- the image -----------------------------------------------------------------------------------------


def instructions() -> dict[str, str]:
    """Return what stands after each instruction; none is there twice."""
    lines = CONTAINERFILE.read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    pairs = [line.split(maxsplit=1) for line in re.sub(r"\\\n\s*", "", text).splitlines() if line]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


IMAGE = instructions()
HOME = IMAGE["WORKDIR"]
PORT = IMAGE["EXPOSE"]
ENVIRONMENT = dict(pair.split("=") for pair in IMAGE["ENV"].split())


def test_the_image_has_a_python_that_is_supported() -> None:
    assert IMAGE["FROM"] == "${BASE}", "so that whoever builds it may pin it"
    (version,) = re.findall(r"^BASE=.*/python:(\d+\.\d+)-slim$", IMAGE["ARG"])
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_the_image_installs_the_wheel_that_is_built_and_what_is_pinned_beside_it() -> None:
    pinned, pattern, target = IMAGE["COPY"].split()
    assert (CONTAINERFILE.parent / pinned).exists()
    assert fnmatch(WHEEL, pattern)
    assert f"pip install --no-cache-dir --require-hashes -r {target}{pinned}" in IMAGE["RUN"]
    assert re.findall(r"[^\s(]+\.whl", IMAGE["RUN"]) == [target + pattern] * 2, "installed, and removed"


def test_the_image_runs_a_command_that_there_is_with_an_option_that_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *command = json.loads(IMAGE["ENTRYPOINT"])
    option, file = json.loads(IMAGE["CMD"])
    assert program in PROJECT["scripts"]
    assert run([*command, option, str(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.startswith(f"kpe: {tmp_path}/none.toml: No such file")
    assert f":{file}:ro " in CONTAINERFILE.read_text(encoding="utf-8"), "where the example mounts it"


def test_the_image_keeps_what_it_writes_in_its_volume() -> None:
    assert IMAGE["VOLUME"] == HOME
    assert PurePosixPath(ENVIRONMENT["KPE_OUTBOX__PATH"]).parent == PurePosixPath(HOME)
    user = re.search(r"&& useradd (.+)$", IMAGE["RUN"])
    assert user is not None
    assert user[1].endswith(f" --home-dir {HOME} --create-home {IMAGE['USER']}"), "it is the user's own"


def test_the_image_listens_where_it_is_published_and_checked() -> None:
    assert ENVIRONMENT["KPE_HTTP__LISTEN"] == f"0.0.0.0:{PORT}"
    assert f"--publish 127.0.0.1:{PORT}:{PORT} " in CONTAINERFILE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("trouble", "healthy"), [(None, True), ("ill", False)])
def test_the_image_is_healthy_as_long_as_the_service_says_that_it_lives(
    trouble: str | None, healthy: bool
) -> None:
    program, *arguments = json.loads(IMAGE["HEALTHCHECK"].partition(" CMD ")[2])
    assert program == "python"
    server = HttpServer(("127.0.0.1", 0), CollectorRegistry(), {"/livez": lambda: (trouble, "ok")}, Http())
    with closing(server):
        server.start()
        checked = done(sys.executable, *on_port(arguments, server.address[1]))
    assert (checked.returncode == 0) is healthy, checked.stderr
    assert checked.returncode in (0, 1), "what an engine takes for an answer"


def on_port(arguments: Sequence[str], port: int) -> list[str]:
    assert any(f":{PORT}/" in argument for argument in arguments)
    return [argument.replace(f":{PORT}/", f":{port}/") for argument in arguments]
