"""Check everything that a release is made of, and leave the wheel and the sdist in ``dist/``.

Run by ``make release-check``, which installs the tools; actionlint takes Go. ``make wheel`` names two checks,
``build wheel``. After a failure the others run all the same. Exit codes: 0 all is well; 1 something is not.
"""

import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
TOP_LEVEL = {"kafka_partition_events": ".", "kafka_partition_events_listeners": "listeners"}
"""What the wheel installs, and where that is in this checkout."""
USERS = ROOT / "tests" / "typing"
MANIFESTS = ROOT / "kafka_partition_events" / "assets" / "kubernetes"
KUBERNETES = ("1.30", "1.34")
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"

USE = """
import sys
import kafka_partition_events as kpe
import kafka_partition_events.listeners, kafka_partition_events_listeners
for name in kpe.__all__:
    getattr(kpe, name)
loaded = {module.partition(".")[0] for module in sys.modules}
assert not loaded & {"kafka", "confluent_kafka", "pyspark", "typer"}, loaded
assert "site-packages" in kpe.__file__, kpe.__file__
partitioner = kpe.DefaultPartitioner()
partitioner.apply_snapshot(kpe.Cluster(
    nodes=[kpe.Node(1, "localhost", 9092)],
    by_topic=[kpe.TopicInfo("orders", tuple(kpe.PartitionInfo("orders", i, 1) for i in range(12)))],
    generation=1,
))
assert partitioner.partition("orders", None, b"foobar", None, b"", None) == 6
print("version", kpe.__version__)
"""
EXTRAS = {
    "confluent": "kafka_partition_events.clients.confluent:PartitioningProducer",
    "kafka-python": "kafka_partition_events.clients.kafka_python:attach",
    "aiokafka": "kafka_partition_events.clients.aiokafka:attach",
    "events": "kafka_partition_events.listeners:SinkListener",
    "metrics": "kafka_partition_events.listeners:PrometheusListener",
    "webhook": "kafka_partition_events.listeners:WebhookSink",
    "testing": "kafka_partition_events.testing:KafkaCluster",
}
"""What must be there with an extra alone. Those that bring commands are tried by the README's."""
README_COMMANDS = "tests/integration/test_readme_fresh.py"


class CheckError(Exception):
    """Something is wrong with the release; the message says what."""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CheckError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}".strip())
    return done.stdout.strip()


def module(name: str, *arguments: str | Path) -> str:
    return run(sys.executable, "-m", name, *arguments)


def build() -> str:
    shutil.rmtree(DIST, ignore_errors=True)
    module("hatchling", "build", "-d", DIST)
    return ", ".join(f"{file.name} {file.stat().st_size / 1e6:.1f} MB" for file in sorted(DIST.iterdir()))


def page() -> str:
    module("twine", "check", "--strict", *sorted(DIST.iterdir()))
    return "the README renders as the page of both"


def metadata() -> str:
    module("validate_pyproject", "pyproject.toml")
    return "pyproject.toml is valid"


@contextmanager
def installed(extra: str = "", kind: str = "whl") -> Iterator[tuple[Path, Path]]:
    """Install the wheel, or the sdist, into a clean environment; yield its Python and a directory."""
    with tempfile.TemporaryDirectory(prefix="kpe-user-") as folder:
        user = Path(folder)
        venv.create(user / "venv", with_pip=True)
        python = user / "venv" / "bin" / "python"
        # Isolated: it must not take what is on PYTHONPATH, the tools of this check, for installed.
        run(python, "-I", "-m", "pip", "install", "--quiet", f"{_built(kind)}{extra}")
        yield python, user


def _built(kind: str) -> Path:
    (file,) = DIST.glob(f"*.{kind}")
    return file


def wheel() -> str:
    """See that all is in it, and use it."""
    names = {name for name in zipfile.ZipFile(_built("whl")).namelist() if ".dist-info/" not in name}
    if (top := {name.partition("/")[0] for name in names}) != TOP_LEVEL.keys():
        raise CheckError(f"the wheel installs {sorted(top)}, not {sorted(TOP_LEVEL)}")
    needed = {
        file
        for top, place in TOP_LEVEL.items()
        for file in run("git", "ls-files", top, cwd=ROOT / place).split()
    }
    if missing := needed - names:
        raise CheckError(f"the wheel lacks {sorted(missing)}")
    with installed() as (python, user):
        said = run(python, "-I", "-W", "error", "-c", USE, cwd=user)
        kpe = subprocess.run(
            [python, "-I", python.with_name("kpe"), "--help"],
            cwd=user,
            capture_output=True,
            text=True,
            check=False,
        )
        if kpe.returncode != 2 or "kafka-partition-events[cli]" not in kpe.stderr:
            raise CheckError(f"kpe without its extra should name it and exit 2: {kpe}")
    return f"{said}, {len(names)} files"


def sdist() -> str:
    """Build and use what others build from."""
    with installed(kind="tar.gz") as (python, user):
        return run(python, "-I", "-W", "error", "-c", USE, cwd=user)


def extras() -> str:
    for extra, there in EXTRAS.items():
        home, _, name = there.partition(":")
        with installed(f"[{extra}]") as (python, user):
            run(python, "-I", "-c", f"from {home} import {name}", cwd=user)
    return f"{len(EXTRAS)} extras, each in an environment of its own"


def commands() -> str:
    """Run each command of the README, `kpe demo` too, with the wheel and the extra that it names."""
    return module("pytest", "-q", "-m", "weekly", README_COMMANDS).splitlines()[-1]


def types() -> str:
    """Check programs of users against the installed wheel, away from the checkout."""
    with installed("[confluent]") as (python, user):
        programs = [Path(shutil.copy(program, user)) for program in sorted(USERS.glob("*.py"))]
        run(sys.executable, "-m", "mypy", "--strict", "--python-executable", python, *programs, cwd=user)
        run(sys.executable, "-m", "pyright", "--pythonpath", python, *programs, cwd=user)
        return f"{len(programs)} programs of users, by mypy --strict and pyright"


def workflows() -> str:
    run("zizmor", "--offline", "--quiet", ".github")
    if (go := shutil.which("go")) is None:
        raise CheckError("actionlint takes Go, which is not installed")
    run(go, "run", ACTIONLINT)
    return f"{len([*(ROOT / '.github' / 'workflows').iterdir()])} workflows, by actionlint and zizmor"


def forms() -> str:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    module("check_jsonschema", "--builtin-schema", "vendor.github-issue-forms", *forms)
    return f"{len(forms)} issue forms"


def manifests() -> str:
    from kubernetes_validate import validate  # noqa: PLC0415 - one of the tools

    known = [
        each for each in _manifests() if not each["apiVersion"].partition("/")[0].endswith(".coreos.com")
    ]
    for manifest in known:
        for version in KUBERNETES:
            validate(manifest, version, strict=True)
    return f"{len(known)} manifests, against the schemas of Kubernetes {' and '.join(KUBERNETES)}"


def _manifests() -> Iterator[dict[str, str]]:
    for path in sorted(MANIFESTS.glob("*.yaml")):
        if path.stem != "kustomization":
            yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


CHECKS: tuple[Callable[[], str], ...] = (
    build, page, metadata, wheel, sdist, extras, commands, types, workflows, forms, manifests,
)  # fmt: skip


def main() -> int:
    """Run the checks that are named, or all, and return the exit code."""
    failed, named = 0, sys.argv[1:]
    for check in (each for each in CHECKS if not named or each.__name__ in named):
        try:
            result = check()
        except Exception as error:  # noqa: BLE001 - the others have something to say, too
            failed += 1
            result = f"FAILED\n{error}"
        print(f"{check.__name__:<12}{result}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
