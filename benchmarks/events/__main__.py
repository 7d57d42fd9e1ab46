"""``python -m benchmarks.events``: see --help."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.command import exit_code_of, say
from benchmarks.events import digests, dispatching, hot_path, journaling
from benchmarks.events.rows import HEADER, Row
from benchmarks.markdown import table
from benchmarks.measure import save

_DESCRIPTION = """\
Load the events' way out: a cluster of 200,000 partitions (5,000 topics, 100 brokers, RF 3) loses a broker, so
2,000 leaders move and 6,000 replicas leave the in-sync replicas.

parts:
  dispatch   from the answer to the last event of the last of 100 listeners; memory
  outbox     events into an SQLite outbox with the snapshot, per CPU second of one core
  digests    records, bytes and costs of such a loss: what one look finds together, or each for itself
  kafka      from the first write to Kafka's last acknowledgement, on a real cluster of three brokers
  minute     a producer's records per second in the same process: minutes in which a broker is lost once
  hot-path   the worst seconds of such a minute, and the pauses of produce()

What is compared takes turns in one run; runs on a disturbed machine are left out by a rule
(benchmarks/measure.py). "kafka" needs Java 17+, and is left out without. Keep the machine to yourself.
"""

_EPILOG = """\
what becomes of the results:
  benchmarks/results/events.md and .json. With --quick, or with some of the parts, they are only shown;
  those of "digests" have files of their own, too.

examples:
  python -m benchmarks.events                     everything, some 13 minutes
  python -m benchmarks.events --quick             everything, some 2 minutes, to see that it works
  python -m benchmarks.events outbox kafka        two parts

exit codes: 0 all measured, and the targets reached; 1 a target was missed; 2 wrong usage, or something
failed; 130 interrupted.
"""

PARTS: dict[str, Callable[..., Iterator[Row]]] = {
    "dispatch": dispatching.measure,
    "outbox": journaling.measure_outbox,
    "digests": digests.measure,
    "kafka": journaling.measure_kafka,
    "minute": hot_path.measure_minutes,
    "hot-path": hot_path.measure,
}
_DIGESTS = "The same loss as it is told: what one look finds together, beside a record for each event"
_TITLE = "A broker loss among 200,000 partitions: 2,000 leaders and 6,000 replicas in 400 topics"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.events",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], metavar="PART", help="which ones; default all"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs, to see that it works")
    arguments = parser.parse_args(words)
    return exit_code_of(partial(_measure, arguments.parts or list(PARTS), quick=arguments.quick))


def _measure(parts: Sequence[str], *, quick: bool) -> bool:
    found: dict[str, list[Row]] = {}
    for part in parts:
        say(f"-- {part}")
        found[part] = []
        for row in PARTS[part](quick=quick):
            found[part].append(row)
            say(" | ".join(row.cells()))
    rows = [row for part in found.values() for row in part]
    if quick or len(parts) < len(PARTS):
        say(table(HEADER, [row.cells() for row in rows]))
    else:
        _save("events", _TITLE, rows)
    if "digests" in found and not quick:
        _save("digests", _DIGESTS, found["digests"])
    return all(row.kept is not False for row in rows)


def _save(name: str, title: str, rows: Sequence[Row]) -> None:
    save(name, title, HEADER, [row.cells() for row in rows], [row.raw() for row in rows])


if __name__ == "__main__":
    sys.exit(main())
