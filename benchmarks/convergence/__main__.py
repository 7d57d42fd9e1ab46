"""``python -m benchmarks.convergence``: see --help."""

import argparse
import sys
from collections.abc import Sequence

from attrs import evolve

from benchmarks.command import Book, add_rounds, exit_code_of, parser_of, say
from benchmarks.convergence import report
from benchmarks.convergence.one_run import Run, run_once
from benchmarks.kept import Measured, Result
from kafka_partition_events.testing import KafkaCluster

_SIZES = (1_000, 3_000, 10_000)
_QUICK = 100

_DESCRIPTION = """\
Let a topic grow under fleets of simulated instances, with real records, a real broker and a real tracker:
how long the change takes, and what it costs. About two minutes a fleet and round. Needs Java 17+.
"""

_EPILOG = """\
what becomes of the results:
  They take their place in benchmarks/results/convergence.json, and docs/change-convergence.md is made
  anew. With --quick they are only shown, unless --results names another file.

exit codes: 0 all measured; 2 wrong usage, or Java, the cluster or a change failed; 130 interrupted.
"""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    book = evolve(_BOOK, elsewhere=arguments.results)
    if arguments.render:
        return book.render_again()
    sizes = [_QUICK] if arguments.quick else arguments.sizes or _SIZES
    rounds = 1 if arguments.quick else arguments.rounds

    def campaign() -> bool:
        with KafkaCluster(1, progress=say) as cluster:
            for size in sizes:
                runs = [run_once(cluster, size, f"{size}-{number}") for number in range(rounds)]
                result = Result(str(size), rounds, {"tracker": Measured(runs)})
                say(report.render({result.scenario: result}))
                if arguments.results or not arguments.quick:
                    book.add(result)
        return True

    return exit_code_of(campaign)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("convergence", _DESCRIPTION, _EPILOG, quick=f"a fleet of {_QUICK}, once")
    parser.add_argument(
        "--size", dest="sizes", action="append", type=int, metavar="N", help="this fleet; repeatable"
    )
    add_rounds(parser, of_each="fleet")
    return parser


_BOOK = Book(
    name="convergence",
    page="change-convergence.md",
    new_page=report.NEW_PAGE,
    parse=lambda data: Run(**data),
    render=report.render_page,
)

if __name__ == "__main__":
    sys.exit(main())
