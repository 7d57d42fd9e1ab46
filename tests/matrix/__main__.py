"""Run the tests that touch what a row is about, with the versions of that row.

::

    make matrix                                  # all rows, one after the other
    make matrix ONLY=kafka-3.7
    make matrix ONLY="python-3.13 clients-lowest"

kafka-X      real clusters of that Kafka, KRaft: producing, faults and growth with both clients, groups,
             control topics, observers, and the test kit itself
clients-X    both clients, lowest and newest that pyproject.toml allows: the same less the kit and observers.
             "newest" is what the registry has today, whatever the lock says
pyspark-X    the Spark jobs, and writing with the column "partition"
python-X     unit, specification and property tests, and both clients on a real Kafka; pythonX is on the PATH

What varies is installed beside the virtual environment by `make` (a minute; a Python of its own: some
minutes), once. Rows end in a table; where one fails, pytest has said why above.
Exit codes: 0 all chosen rows are green; 1 one is not, or could not be set up.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

from kafka_partition_events.jvm import KAFKA_VERSIONS

ROOT = Path(__file__).parents[2]
VENV = Path(sys.prefix)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

CLIENTS = (
    "confluent_source",
    "confluent_producer",
    "confluent_feedback",
    "kafka_python_clients",
    "feedback",
    "kafka_python_idempotence",
    "aiokafka_feedback",
    "observers/metadata_of_missing_topics",
    "group_hooks",
    "group_prober",
    "control_log",
)
KAFKA = (
    "kafka_cluster",
    "cluster_trouble",
    "linked_cluster",
    "acls",
    *CLIENTS,
    "tracker",
    "kafka_sink",
    "observe_service",
)
SPARK = (
    "partition_column",
    "partition_column_kafka",
    "fleet_submit",
    "fleet_pipeline",
    "fleet_tables",
    "spark_whatif",
)
PYTHON = ("confluent_producer", "kafka_python_clients", "feedback", "observers/metadata_of_missing_topics")

LAST_LINE = re.compile(r"=+ (?=.*\d+ (?:passed|failed|error))(?P<counts>.*) in [\d.]+s.* =+$")


@frozen
class Row:
    """What is run, and with what.

    Attributes:
        tests: What pytest is given.
        python: The interpreter.
        target: What `make` has to make first, and with which variables.
        environment: Variables for the tests.
    """

    tests: Sequence[str]
    python: Path = VENV / "bin" / "python"
    target: Sequence[str] = ()
    environment: Mapping[str, str] = field(factory=dict)


def all_rows() -> dict[str, Row]:
    """Return the rows by name, in the order in which they run."""
    rows = {f"kafka-{v}": Row(_files(KAFKA), environment={"KPE_KAFKA_VERSION": v}) for v in KAFKA_VERSIONS}
    for name in ("clients-lowest", "clients-newest"):
        packages = str(VENV / name)  # which hide those of the virtual environment
        tests = _files(("confluent_drop_in", *CLIENTS))
        rows[name] = Row(tests, target=(packages, f"VENV={VENV}"), environment={"PYTHONPATH": packages})
    rows["pyspark-4.2"] = Row(_files(SPARK, "integration/spark"))
    tests = ("tests/unit", "tests/spec", "tests/property", *_files(PYTHON))
    for version in PYTHONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            rows[f"python-{version}"] = Row(tests)
        else:
            own = VENV / f"python-{version}"
            target = (f"{own}/.ready", f"VENV={own}", f"PYTHON=python{version}")
            rows[f"python-{version}"] = Row(tests, python=own / "bin" / "python", target=target)
    return rows


def _files(names: Iterable[str], folder: str = "integration") -> tuple[str, ...]:
    paths = (Path("tests", folder, name) for name in names)
    return tuple(str(path.with_name(f"test_{path.name}.py")) for path in paths)


def run(row: Row) -> tuple[bool, str]:
    """Run a row, showing what it says; return whether it is green, and pytest's counts."""
    make = ["make", "--no-print-directory", *row.target]
    if row.target and subprocess.run(make, cwd=ROOT, check=False).returncode:
        return False, "could not be set up"
    counts = "did not finish"
    with subprocess.Popen(
        [row.python, "-m", "pytest", "--durations=10", *row.tests],
        cwd=ROOT,
        env={**os.environ, **row.environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as tests:
        assert tests.stdout is not None
        for line in tests.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if found := LAST_LINE.match(line.strip()):
                counts = found["counts"]
    return tests.returncode == 0, counts


def table(results: Iterable[tuple[str, bool, str, float]]) -> Iterator[str]:
    """Lay out the results: row, whether it is green, pytest's counts, seconds."""
    yield f"{'row':<16}{'':<8}{'minutes':>7}  tests"
    for name, is_green, counts, seconds in results:
        yield f"{name:<16}{'green' if is_green else 'RED':<8}{seconds / 60:>7.1f}  {counts}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen rows and return the exit code."""
    rows = all_rows()
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("make matrix", description=__doc__, formatter_class=raw)
    parser.add_argument("row", nargs="*", help=f"{', '.join(rows)}; all by default")
    chosen: list[str] = parser.parse_args(arguments).row or list(rows)
    if unknown := [name for name in chosen if name not in rows]:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(rows)}")
    results = []
    for number, name in enumerate(chosen, 1):
        print(f"\nmatrix: {name} ({number} of {len(chosen)})", flush=True)  # noqa: T201 - a program
        began = time.monotonic()
        is_green, counts = run(rows[name])
        results.append((name, is_green, counts, time.monotonic() - began))
    print("", *table(results), sep="\n")  # noqa: T201
    return 0 if all(is_green for _, is_green, _, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
