"""``python -m benchmarks.kip480``: see --help."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from attrs import evolve

from benchmarks.campaign import Procedure, measure
from benchmarks.command import Book, Listing, add_rounds, exit_code_of, parser_of, say
from benchmarks.kept import Result
from benchmarks.kip480 import report
from benchmarks.kip480.metrics import Run
from benchmarks.kip480.one_run import run_once
from benchmarks.kip480.plan import BROKERS, CELLS, KINDS, LOADS, WARM_UP, Cell
from benchmarks.kip480.rules import why_discarded
from kafka_partition_events.testing import KafkaCluster

_QUICK_S = 2.0

_DESCRIPTION = """\
Reproduce KIP-480: what sticking to one partition for a while is worth, by partitions and linger, beside round
robin, random and librdkafka's default, on a real cluster of three brokers.

A cell is PARTITIONSp-LINGERms-LOAD, such as 16p-0ms-1x: one producer, unkeyed records, no linger. In each
cell the kinds of producer take turns, run by run, each run with a fresh topic and processes of its own.
Runs on a disturbed machine are thrown out by a rule and repeated (benchmarks/kip480/rules.py). Needs Java
17+. Keep the machine to yourself meanwhile.
"""

_EPILOG = """\
what becomes of the results:
  A cell that is finished takes its place in benchmarks/results/kip480.json at once, and docs/kip-480.md and
  docs/img/kip480-*.svg are made anew from that file. A second call goes on where the first was stopped:
  cells that are there with a kept run of each kind for every round are left out; --again measures them anew.
  With --quick or --kind numbers are only shown, unless --results names another file; its page and pictures
  are then made beside it.

examples:
  python -m benchmarks.kip480                                     everything that is missing, about 90 minutes
  python -m benchmarks.kip480 --cell 16p-0ms-1x --cell 128p-0ms-1x --again
  python -m benchmarks.kip480 --load 1x --quick                   one short round of one load
  python -m benchmarks.kip480 --cell 128p-0ms-1x --kind ours --quick
  python -m benchmarks.kip480 --render                            page and pictures only

exit codes: 0 all measured; 1 some run could not be made or kept (what there is was rendered); 2 wrong usage,
or Java or the cluster failed; 130 interrupted (finished cells are kept).
"""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    book = evolve(_BOOK, elsewhere=arguments.results)
    if arguments.render:
        return book.render_again()
    keep = arguments.results or not (arguments.quick or arguments.kinds)
    rounds = 1 if arguments.quick else arguments.rounds
    done = book.load() if keep and not arguments.again else {}
    cells = [cell for cell in _chosen(arguments) if not _is_done(done.get(cell.name), rounds)]
    kinds = [kind for kind in KINDS if kind in (arguments.kinds or KINDS)]
    runs = [cell for cell in cells for kind in cell.kinds if kind in kinds] * rounds
    minutes = sum(cell.seconds_a_run for cell in runs) / 60
    say(f"{len(cells)} cells, {len(runs)} runs, about {minutes:.0f} minutes")

    def campaign() -> bool:
        complete = True
        for cell, result in _measured(cells, kinds, rounds):
            complete = complete and result.complete
            if keep:
                book.add(result)
            else:
                say("\n" + report.render_load(cell.load, {cell.name: result}))
        return complete

    return exit_code_of(campaign)


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("kip480", _DESCRIPTION, _EPILOG, quick="one short round")
    add = parser.add_argument
    add("--cell", dest="cells", action="append", metavar="NAME", choices=CELLS, help="only this; repeatable")
    add("--load", dest="loads", action="append", metavar="NAME", choices=LOADS, help="only this; repeatable")
    add("--kind", dest="kinds", action="append", metavar="NAME", choices=KINDS, help="only this; repeatable")
    add_rounds(parser, of_each="kind")
    add("--again", action="store_true", help="measure cells that are finished once more")
    add("--list", action=Listing, lines=_listed, help="show cells, loads and kinds, and exit")
    return parser


def _listed() -> Iterator[str]:
    yield f"kinds: {' '.join(KINDS)}"
    for load in LOADS.values():
        cells = [cell for cell in CELLS.values() if cell.load is load]
        minutes = 3 * sum(cell.seconds_a_run * len(cell.kinds) for cell in cells) / 60
        yield f"{load.name}: {load.title}; 3 rounds: about {minutes:.0f} min"
        yield f"  {' '.join(cell.name for cell in cells)}"


def _chosen(arguments: argparse.Namespace) -> list[Cell]:
    """Return the wanted cells, shorter if quick."""
    everything = not arguments.cells and not arguments.loads
    wanted = [
        cell
        for cell in CELLS.values()
        if everything or cell.name in (arguments.cells or ()) or cell.load.name in (arguments.loads or ())
    ]
    return [evolve(cell, seconds=_QUICK_S) for cell in wanted] if arguments.quick else wanted


def _is_done(result: Result[Run] | None, rounds: int) -> bool:
    return result is not None and result.complete and result.rounds >= rounds


def _measured(cells: Sequence[Cell], kinds: Sequence[str], rounds: int) -> Iterator[tuple[Cell, Result[Run]]]:
    if not cells:
        return
    with KafkaCluster(BROKERS, progress=say) as cluster:
        # The first load meets brokers that Java is still compiling: it would be the first kind's misfortune.
        say(f"warming up: {_in_words(run_once(cluster, WARM_UP, kinds[0], 0))}")
        for cell in cells:
            procedure = Procedure(
                run=partial(run_once, cluster, cell), why_discarded=why_discarded, in_words=_in_words
            )
            asked = [kind for kind in cell.kinds if kind in kinds]
            yield cell, measure(procedure, cell.name, asked, rounds, say)


def _in_words(run: Run) -> str:
    return (
        f"p50 {run.p50_ms:,.1f}, p99 {'>' if run.p99_is_a_bound else ''}{run.p99_ms:,.1f} ms, "
        f"{run.per_batch:.1f} records a batch, CPU s a million {run.cpu_s or '-'}, of brokers "
        f"{run.broker_cpu_s or '-'}, {run.unreported:,} not reported, "
        f"behind {run.behind_ms:,.0f} ms, steal {run.steal:.0%}"
    )


_BOOK = Book(
    name="kip480",
    page="kip-480.md",
    new_page=report.NEW_PAGE,
    parse=lambda data: Run(**data),
    render=report.render_page,
)

if __name__ == "__main__":
    sys.exit(main())
