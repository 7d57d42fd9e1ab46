"""Which module may import which, and what `import kafka_partition_events` must not drag in."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kafka_partition_events"
LISTENERS = ROOT / "listeners" / "kafka_partition_events_listeners"
HEAVY = {"kafka", "confluent_kafka", "pyspark", "pyarrow", "typer", "starlette", "cloudevents"} | {
    "aiokafka", "prometheus_client", "httpx", "jinja2", "sqlite3",
}  # fmt: skip
LAYERS = {
    "metadata": {"metadata"},
    "routing": {"metadata", "routing"},
    "health": {"metadata", "routing", "health"},
    "diagnose": {"metadata", "routing", "diagnose"},
    "partitioners": {"metadata", "routing", "health", "partitioners"},
    "clients": {"metadata", "routing", "health", "partitioners", "clients"},
    "outbox": {"metadata", "outbox"},
    "events": {"metadata", "outbox", "events"},
    "observe": {"metadata", "clients", "outbox", "events", "control", "diagnose", "observe"},
    "control": {"metadata", "routing", "partitioners", "clients", "diagnose", "control"},
}
CONTROL_ROOMS = {
    "protocol": {"protocol"},
    "groups": {"protocol", "groups"},
    "changes": {"protocol", "groups", "changes"},
    "agents": {"protocol", "agents", "compacted_topic"},
    "operate": {"protocol", "groups", "changes", "operate", "compacted_topic", "described"},
    "tracker": {"protocol", "groups", "changes", "operate", "tracker", "described"},
}
SPARK_ROOMS = {
    "tables": {"tables"},
    "gold": {"events", "tables", "gold"},
    "ingest": {"events", "gold", "kafka", "progress", "tables", "ingest"},
    "control": {"events", "gold", "ingest", "tables", "control"},
    "refresh": {"control", "events", "gold", "ingest", "progress", "tables", "refresh"},
    "report": {"events", "page", "tables", "wording", "report"},
    "partitioner": {"partitioner"},
    "whatif": {"kafka", "partitioner", "whatif"},
}
CLI_ROOMS = {
    "common": {"common"},
    "services": {"common", "services"},
    **{
        room: {"common", "services", room}
        for room in ("cluster", "doctor", "events", "service", "change", "spark")
    },
}
ROOMS = [
    *(("control", room, known) for room, known in CONTROL_ROOMS.items()),
    *(("spark", room, known | {"errors"}) for room, known in SPARK_ROOMS.items()),
    *(("cli", room, known) for room, known in CLI_ROOMS.items()),
]
"""The rooms of the large wings, and what those in one may use."""
SHARED = {"errors", "log", "acls", "process", "ranges", "json_text", "durations", "legible", "links"}
CONTROLS = {"control", "diagnose", "routing", "metadata", *SHARED}
PURE: dict[str, set[str] | None] = {
    **{name: set() for name in ("durations", "json_text", "legible", "ranges")},
    **{
        f"metadata/{name}": {"metadata", "errors", "durations"}
        for name in ("cluster", "diff", "events", "reconcile", "source", "state")
    },
    **dict.fromkeys(("control/protocol", "control/changes", "control/groups/state"), CONTROLS),
    **{f"control/agents/{name}": CONTROLS for name in ("producer_duties", "consumer_duties", "leases")},
    "control/tracker/status": CONTROLS,
    **{f"observe/{name}": None for name in ("alerts", "probes", "quantities", "setting_kinds")},
    "diagnose": None,
    "health": None,
    **{f"spark/{name}": None for name in ("page", "wording")},
    **{f"spark/report/{name}": None for name in ("heatmap", "model", "outages", "page")},
    **{
        f"demo/{name}": None
        for name in ("account", "chart", "figures", "key_order", "page", "plan", "story")
    },
}  # fmt: skip
"""What decides what is believed and said, and what it may know."""
EXCEPT = {
    "diagnose/fingerprint.py": {"random"},  # it has fixed seeds
    "control/agents/leases.py": {"random"},
    "health/tracker.py": {"random", "time", "threading"},
}


def modules_of(directory: Path) -> list[Path]:
    modules = sorted(directory.rglob("*.py"))
    assert modules, f"nothing in {directory}"
    return modules


def names_imported_by(file: Path) -> Iterator[list[str]]:
    """Yield the parts of the name of every module that a file imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")


def imported_by(file: Path, *, below: str = "") -> set[str]:
    """Return the parts of this package, or those below one of them, that a file imports."""
    above = [PACKAGE.name, *below.split()]
    parts = names_imported_by(file)
    return {part[len(above)] for part in parts if part[: len(above)] == above and len(part) > len(above)}


def modules_imported_by(file: Path) -> set[str]:
    """Return the first part of every module that a file imports."""
    return {first for first, *_ in names_imported_by(file)}


def python(program: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program; fail if it does."""
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("wing", LAYERS)
def test_imports_point_one_way(wing: str) -> None:
    for file in modules_of(PACKAGE / wing):
        foreign = imported_by(file) - LAYERS[wing] - SHARED
        assert not foreign, f"{file.relative_to(PACKAGE)} imports {foreign}"


@pytest.mark.parametrize(("wing", "room", "known"), ROOMS)
def test_the_rooms_of_a_wing_know_those_below(wing: str, room: str, known: set[str]) -> None:
    for file in modules_of(PACKAGE / wing / room):
        foreign = imported_by(file, below=wing) - known
        assert not foreign, f"{file.relative_to(PACKAGE)} imports {foreign}"


@pytest.mark.parametrize("place", PURE)
def test_what_decides_does_no_io_and_knows_no_more_than_it_may(place: str) -> None:
    """Nor does it start threads, read clocks or throw dice."""
    path, known = PACKAGE / place, PURE[place]
    impure = {"time", "threading", "random", *HEAVY} | ({"datetime"} if known is CONTROLS else set())
    for file in modules_of(path) if path.is_dir() else [path.with_suffix(".py")]:
        excepted = EXCEPT.get(str(file.relative_to(PACKAGE)), set[str]())
        assert not (impure - excepted) & modules_imported_by(file), file
        assert known is None or imported_by(file) <= known, file


def test_only_what_runs_as_a_program_imports_listeners() -> None:
    """An application chooses them by the facade ``kafka_partition_events.listeners``."""
    users = {f for f in modules_of(PACKAGE) if LISTENERS.name in modules_imported_by(f)}
    programs = {*modules_of(PACKAGE / "observe"), *modules_of(PACKAGE / "cli"), PACKAGE / "listeners.py"}
    assert not users - programs


def test_listeners_import_nothing_that_stands_on_them() -> None:
    for file in modules_of(LISTENERS):
        above = imported_by(file) & {"observe", "cli", "spark"}
        assert not above, f"{file.name} imports {above}"


@pytest.mark.parametrize("first", ["kafka_partition_events", "kafka_partition_events_listeners"])
def test_importing_the_package_imports_no_client_no_spark_no_cli(first: str) -> None:
    second = {"kafka_partition_events", "kafka_partition_events_listeners"} - {first}
    program = (
        f"import sys, {first}, {second.pop()}, kafka_partition_events.listeners;"
        f"print(*({{m.partition('.')[0] for m in sys.modules}} & {HEAVY!r}))"
    )
    assert not python(program, "-W", "error").stdout.split()


@pytest.mark.parametrize(("module", "with_it"), [("testing.plugin", set()), ("cli.app", {"typer"})])
def test_what_starts_often_is_cheap_to_load_and_needs_no_other_extra(module: str, with_it: set[str]) -> None:
    program = (
        f"import sys, kafka_partition_events.{module};"
        f"print(*({{m.partition('.')[0] for m in sys.modules}} & {HEAVY | {'py4j'}!r}))"
    )
    assert set(python(program).stdout.split()) <= with_it


HELP = {
    "__init__", "errors", "legible", "log", "clients.librdkafka", "metadata.clock",
    *(f"cli.{name}" for name in ("app", "services.services")),
    *(f"cli.common.{name}" for name in ("errors", "lazy_group", "output", "stopping")),
}  # fmt: skip
"""What the first page of `kpe`, and completing a command's name, may import of this package."""
HELP_OF_WATCH = HELP | {
    "cli.cluster.watch", "observe.quantities", "observe.setting_kinds",
    *(f"cli.common.{name}" for name in ("completing", "options", "settings")),
}  # fmt: skip
"""The same for a command: its options, and nothing of what it does with them."""
DEAR = {"structlog", "rich", "cattrs", "pydantic", "asyncio", "concurrent", "importlib.metadata", *HEAVY} - {
    "typer"
}
"""What is not worth its time where somebody wants to read a page."""


@pytest.mark.parametrize(
    ("arguments", "completed", "may"),
    [
        ("--help", None, HELP),
        ("watch --help", None, HELP_OF_WATCH),
        ("", "kpe wa", HELP),
        ("", "kpe events ", HELP | {"cli.events.app"}),
        ("change --help", None, HELP | {"cli.change.app"}),
        ("", "kpe change ", HELP | {"cli.change.app"}),
        ("", "kpe watch --to", HELP_OF_WATCH),
    ],
)
def test_help_and_completion_import_next_to_nothing(
    arguments: str, completed: str | None, may: set[str]
) -> None:
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = {['kpe', *arguments.split()]!r}\n"
        "from kafka_partition_events.cli import main\n"
        "main()\n"
    )
    words = completed or ""
    asked = {"_KPE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": f"{words.count(' ')}"}
    done = python(program, **(asked if completed else {}))
    assert done.stdout
    loaded = set(done.stderr.splitlines()[-1].split())
    ours = {name.removeprefix(f"{PACKAGE.name}.") for name in loaded if name.startswith(f"{PACKAGE.name}.")}
    packages = {name for name in ours if (PACKAGE / name.replace(".", "/")).is_dir()}
    assert ours - packages <= may
    assert not DEAR & loaded


CORE = {
    "metadata": (2_697, 2_697),
    "routing": (500, 500),
    "health": (1_704, 1_400),
    "partitioners": (1_005, 1_005),
    "clients": (8_646, 4_300),
}
"""All lines of the core's wings: what they may have now, and the target, 10,500 in all, without keys and
asyncio. The first number only ever falls; a raise needs a decision that names what goes instead."""
WATCHER = (7_433, 7_433)
"""The same for what leaves the process: events, outbox, the service and its commands, listeners, sinks."""
CONTROL = (5_609, 5_609)
"""The same for change control: its wing, and its commands in `cli/change`."""
COMMANDS = (4_524, 4_524)
"""The same for the command line without `cli/change`."""
OTHERS = {"diagnose": 460, "spark": 6_299, "demo": 2_080, "testing": 3_304}
"""The same for the wings that have no target."""
LONGEST = 450
"""Lines of a file of the core."""


def lines(file: Path) -> int:
    return file.read_text(encoding="utf-8").count("\n")


def in_wings(*wings: str) -> set[Path]:
    return {file for wing in wings for file in modules_of(PACKAGE / wing)}


BOUNDS = {
    **{wing: (in_wings(wing), *bound) for wing, bound in CORE.items()},
    "watcher": (
        {*modules_of(LISTENERS), *in_wings("events", "outbox", "observe", "cli/events", "cli/service")},
        *WATCHER,
    ),
    "change control": (in_wings("control", "cli/change"), *CONTROL),
    "commands": (in_wings("cli") - in_wings("cli/change"), *COMMANDS),
    **{wing: (in_wings(wing), bound, bound) for wing, bound in OTHERS.items()},
}


@pytest.mark.parametrize(("files", "now", "target"), BOUNDS.values(), ids=BOUNDS)
def test_a_wing_shrinks_to_its_target_and_never_grows(files: set[Path], now: int, target: int) -> None:
    assert now >= target
    assert sum(map(lines, files)) <= now


@pytest.mark.parametrize("wing", CORE)
def test_a_file_of_the_core_is_read_in_one_go(wing: str) -> None:
    long = {file.name: count for file in modules_of(PACKAGE / wing) if (count := lines(file)) > LONGEST}
    assert not long
