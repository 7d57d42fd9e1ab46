"""``python -m benchmarks.spark``: see --help."""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module

from attrs import frozen

from benchmarks.command import exit_code_of, say
from benchmarks.markdown import table
from benchmarks.measure import save
from benchmarks.rows import HEADER, Row

_DESCRIPTION = """\
Measure the Spark jobs.

parts:
  partition-column   keys a second of each way to the column, beside plain UDFs
  whatif             keys a second, four scenarios at once, from Parquet to the answer
  fleet              events a second from a real topic to gold tables; 10x the events, 10x the partitions

What is compared takes turns, in a new order each round; the first round is dropped, and so is one on a
disturbed machine (benchmarks/measure.py). Needs Java 17+. Keep the machine to yourself.
"""

_EPILOG = """\
what becomes of the results:
  benchmarks/results/spark_PART.md and .json. With --quick they are only shown.

examples:
  python -m benchmarks.spark                           everything
  python -m benchmarks.spark partition-column --quick  one part, to see that it works

exit codes: 0 all measured, and the targets reached; 1 a target was missed; 2 wrong usage, or something
failed; 130 interrupted.
"""


@frozen
class Part:
    """A module with ``measure(*, quick: bool) -> Iterator[Row]``, and the title of its results."""

    module: str
    title: str


PARTS: Mapping[str, Part] = {
    "partition-column": Part(
        "benchmarks.spark.partition_column",
        "Keys to partitions in Spark: M keys for each CPU second of the JVM and its Python workers",
    ),
    "whatif": Part("benchmarks.spark.whatif", "What-if: M keys/s on 2 cores, four scenarios at once"),
    "fleet": Part("benchmarks.spark.fleet", "The fleet pipeline, from a topic of events to gold tables"),
}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], metavar="PART", help="which ones; default all"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs, to see that it works")
    arguments = parser.parse_args(words)
    names: list[str] = arguments.parts or list(PARTS)
    if len(names) == 1:
        return exit_code_of(partial(_measure, names[0], quick=arguments.quick))
    # Each in a process of its own: a JVM lasts as long as its process, and what it has compiled with it.
    quick = ["--quick"] if arguments.quick else []
    return max(
        subprocess.run([sys.executable, "-m", "benchmarks.spark", name, *quick], check=False).returncode  # noqa: S603
        for name in names
    )


def _measure(name: str, *, quick: bool) -> bool:
    say(f"-- {name}")
    rows: list[Row] = []
    for row in import_module(PARTS[name].module).measure(quick=quick):
        rows.append(row)
        say(" | ".join(row.cells()))
    cells = [row.cells() for row in rows]
    if quick:
        say(table(HEADER, cells))
    else:
        stem = f"spark_{name.replace('-', '_')}"
        save(stem, PARTS[name].title, HEADER, cells, [row.raw() for row in rows])
    return all(row.kept is not False for row in rows)


if __name__ == "__main__":
    sys.exit(main())
