"""``python -m benchmarks.gate``: see --help."""

import argparse
import sys
import time
from collections.abc import Sequence

from attrs import evolve
from confluent_kafka.admin import AdminClient

from benchmarks.command import Book, Listing, exit_code_of, parser_of, say
from benchmarks.errors import BenchError
from benchmarks.gate import report
from benchmarks.gate.control import Control
from benchmarks.gate.counting import Run
from benchmarks.gate.one_batch import Bench, run_batch
from benchmarks.gate.plan import AT_ONCE, GROUPS, PRODUCERS, RUNS, SCENARIOS, Client, Scenario
from benchmarks.kept import Measured, Result
from kafka_partition_events.testing import KafkaCluster

_QUICK_SIZE = 2
_SEPARATOR = "/"

_DESCRIPTION = f"""\
Count the records that a group with auto.offset.reset=latest misses when its topic grows: not gated, gated,
and gated with something failing in the middle. {RUNS} runs of each cell on two real clusters, {AT_ONCE} at a
time.

A cell is GUARD+CONSUMERS[+FAULT]/PRODUCER, such as hook+confluent-848/kafka-python; without /PRODUCER both
producers, which share batches. Needs Java 17+. Keep the machine to yourself meanwhile.
"""

_EPILOG = """\
what becomes of the results:
  A finished scenario takes its place in benchmarks/results/gated_growth.json at once, and
  docs/gated-growth.md is made anew from that file. A second call goes on where the first was stopped; --again
  measures anew. With --quick or for one of two producers, numbers are only shown, unless --results names
  another file.

examples:
  python -m benchmarks.gate                              everything that is missing
  python -m benchmarks.gate --cell hook+confluent+producer --again
  python -m benchmarks.gate --cell none+confluent/kafka-python --quick
  python -m benchmarks.gate --render                     the page only

exit codes: 0 all measured; 1 some batch failed (what there is was rendered); 2 wrong usage, or Java or a
cluster failed; 130 interrupted (finished scenarios are kept).
"""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    book = evolve(_BOOK, elsewhere=arguments.results)
    if arguments.render:
        return book.render_again()
    asked = _asked(arguments.cells or [*SCENARIOS])
    keep = arguments.results or not (arguments.quick or any(len(p) < len(PRODUCERS) for p in asked.values()))
    done = book.load() if keep and not arguments.again else {}
    left = {name: producers for name, producers in asked.items() if not _is_done(done.get(name))}
    batches = 1 if arguments.quick else RUNS // AT_ONCE
    minutes = sum(SCENARIOS[name].seconds_a_batch for name in left) * batches / 60
    say(f"{len(left)} scenarios of {batches} batches, about {minutes:.0f} minutes")

    def campaign() -> bool:
        complete = True
        for brokers in sorted({SCENARIOS[name].brokers for name in left}):
            with KafkaCluster(brokers, broker_config=GROUPS) as data, Control(data) as control:
                admin = AdminClient({"bootstrap.servers": data.bootstrap_servers, "log_level": 2})
                bench = Bench(data, control, admin)
                for name in [name for name in left if SCENARIOS[name].brokers == brokers]:
                    size = _QUICK_SIZE if arguments.quick else AT_ONCE
                    result = _measured(bench, SCENARIOS[name], left[name], batches, size)
                    complete = complete and result.complete
                    if keep:
                        book.add(result)
                    say(report.render([SCENARIOS[name]], {name: result}))
        return complete

    return exit_code_of(campaign)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("gate", _DESCRIPTION, _EPILOG, quick=f"one batch of {_QUICK_SIZE} topics")
    add = parser.add_argument
    cells = [*SCENARIOS, *(f"{name}{_SEPARATOR}{p}" for name in SCENARIOS for p in PRODUCERS)]
    add("--cell", dest="cells", action="append", metavar="NAME", choices=cells, help="only this; repeatable")
    add("--again", action="store_true", help="measure what is finished once more")
    add("--list", action=Listing, lines=lambda: SCENARIOS, help="show the scenarios, and exit")
    return parser


def _asked(cells: Sequence[str]) -> dict[str, tuple[Client, ...]]:
    """Return which producers are wanted in which scenario."""
    asked: dict[str, tuple[Client, ...]] = {}
    for cell in cells:
        name, _, wanted = cell.partition(_SEPARATOR)
        found = {*asked.get(name, ()), *(p for p in PRODUCERS if wanted in {"", p})}
        asked[name] = tuple(p for p in PRODUCERS if p in found)
    return asked


def _is_done(result: Result[Run] | None) -> bool:
    return result is not None and result.complete


def _measured(
    bench: Bench, scenario: Scenario, producers: Sequence[Client], batches: int, size: int
) -> Result[Run]:
    measured: dict[str, Measured[Run]] = {producer: Measured() for producer in producers}
    bench.control.begin()
    for number in range(batches):
        began = time.monotonic()
        try:
            runs = run_batch(bench, scenario, number, producers, size)
        except BenchError as error:
            say("\n".join([f"{scenario.name}: {error}", *getattr(error, "__notes__", ())]))
            for into in measured.values():
                into.broken = str(error)
            break
        for producer, found in runs.items():
            measured[producer].kept += found
            say(
                f"{scenario.name}, batch {number + 1} of {batches}, {producer}: {_in_words(found)} "
                f"({time.monotonic() - began:.0f} s)"
            )
    return Result(scenario.name, batches * size, measured)


def _in_words(runs: Sequence[Run]) -> str:
    opened = [run.open_s for run in runs if run.open_s is not None]
    return (
        f"missed {sum(run.missed_new for run in runs)} of {sum(run.acked_new for run in runs)} on new "
        f"partitions, {sum(run.missed_old for run in runs)} on old ones; "
        f"early {sum(run.early for run in runs)}"
        + (f"; open after {min(opened):.1f} - {max(opened):.1f} s" if opened else "")
    )


_BOOK = Book(
    name="gated_growth",
    page="gated-growth.md",
    new_page=report.NEW_PAGE,
    parse=lambda data: Run(**data),
    render=report.render_page,
)

if __name__ == "__main__":
    sys.exit(main())
