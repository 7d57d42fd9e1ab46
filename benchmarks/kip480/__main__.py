"""``python -m benchmarks.kip480``: see --help."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from benchmarks import kept
from benchmarks.campaign import Procedure, measure
from benchmarks.errors import BenchError
from benchmarks.kept import Result
from benchmarks.kip480 import plots, report
from benchmarks.kip480.metrics import Run
from benchmarks.kip480.one_run import run_once
from benchmarks.kip480.plan import BROKERS, CELLS, KINDS, LOADS, WARM_UP, Cell
from benchmarks.kip480.rules import why_discarded
from benchmarks.measure import RESULTS
from kafka_partition_events.errors import JvmError
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError

_ROOT = Path(__file__).parents[2]
_OFFICIAL = RESULTS / "kip480.json"
_QUICK_S = 2.0

_DESCRIPTION = """\
Reproduce KIP-480: what sticking to one partition for a while is worth, by partitions and linger, beside round
robin, random and librdkafka's default, on a real cluster of three brokers.

A cell is PARTITIONSp-LINGERms-LOAD, such as 16p-0ms-1x: one producer, unkeyed records, no linger. In each
cell the five kinds of producer take turns, run by run, each run with a fresh topic and processes of its own.
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
  python -m benchmarks.kip480                                     everything that is missing, about an hour
  python -m benchmarks.kip480 --cell 16p-0ms-1x --cell 128p-0ms-1x --again
  python -m benchmarks.kip480 --load 1x --quick                   one short round of one load
  python -m benchmarks.kip480 --cell 128p-0ms-1x --kind ours --quick
  python -m benchmarks.kip480 --render                            page and pictures only

exit codes: 0 all measured; 1 some run could not be made or kept (what there is was rendered); 2 wrong usage,
or Java or the cluster failed; 130 interrupted (finished cells are kept).
"""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    official = arguments.results is None
    path: Path = arguments.results or _OFFICIAL
    if arguments.render:
        return _render_only(path, official=official)
    keep = not official or not (arguments.quick or arguments.kinds)
    rounds = 1 if arguments.quick else arguments.rounds
    done = kept.load(path, _parse) if keep and not arguments.again else {}
    cells = [cell for cell in _chosen(arguments) if not _is_done(done.get(cell.name), rounds)]
    kinds = [kind for kind in KINDS if kind in (arguments.kinds or KINDS)]
    seconds = sum(cell.seconds_a_run for cell in cells) * len(kinds) * rounds
    _say(f"{len(cells)} cells, {len(cells) * len(kinds) * rounds} runs, about {seconds / 60:.0f} minutes")
    complete = True
    try:
        for cell, result in _measured(cells, kinds, rounds):
            complete = complete and result.complete
            if keep:
                _render(path, kept.merge(path, result, _parse), official=official)
            else:
                _say("\n" + report.render_load(cell.load, {cell.name: result}))
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except (BenchError, KitError, JvmError) as error:
        _say(f"error: {error}")
        return 2
    return 0 if complete else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kip480",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--cell", dest="cells", action="append", metavar="NAME", choices=CELLS, help="only this; repeatable")
    add("--load", dest="loads", action="append", metavar="NAME", choices=LOADS, help="only this; repeatable")
    add("--kind", dest="kinds", action="append", metavar="NAME", choices=KINDS, help="only this; repeatable")
    add("--rounds", type=_positive, default=3, metavar="N", help="runs of each kind; default %(default)s")
    add("--quick", action="store_true", help="one short round, to see that it works")
    add("--again", action="store_true", help="measure cells that are finished once more")
    add("--results", type=Path, metavar="FILE", help="keep the results here, not in benchmarks/results/")
    add("--render", action="store_true", help="measure nothing; make page and pictures")
    add("--list", action=_List, nargs=0, help="show cells, loads and kinds, and exit")
    return parser


class _List(argparse.Action):
    """Show what there is, as ``--help`` shows help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        _say(f"kinds: {' '.join(KINDS)}")
        for load in LOADS.values():
            cells = [cell for cell in CELLS.values() if cell.load is load]
            minutes = 3 * len(KINDS) * sum(cell.seconds_a_run for cell in cells) / 60
            _say(f"{load.name}: {load.title}; 3 rounds: about {minutes:.0f} min")
            _say(f"  {' '.join(cell.name for cell in cells)}")
        parser.exit()


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


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
    with KafkaCluster(BROKERS, progress=_say) as cluster:
        # The first load meets brokers that Java is still compiling: it would be the first kind's misfortune.
        _say(f"warming up: {_in_words(run_once(cluster, WARM_UP, kinds[0], 0))}")
        for cell in cells:
            procedure = Procedure(
                run=partial(run_once, cluster, cell), why_discarded=why_discarded, in_words=_in_words
            )
            yield cell, measure(procedure, cell.name, kinds, rounds, _say)


def _in_words(run: Run) -> str:
    return (
        f"p50 {run.p50_ms:,.1f}, p99 {'>' if run.p99_is_a_bound else ''}{run.p99_ms:,.1f} ms, "
        f"{run.per_batch:.1f} records a batch, CPU s a million {run.cpu_s or '-'}, of brokers "
        f"{run.broker_cpu_s or '-'}, {run.unreported:,} not reported, "
        f"behind {run.behind_ms:,.0f} ms, steal {run.steal:.0%}"
    )


def _render_only(path: Path, *, official: bool) -> int:
    found = kept.load(path, _parse)
    if not found:
        _say(f"error: no results in {path}; measure first")
        return 2
    _render(path, found, official=official)
    return 0


def _render(path: Path, found: dict[str, Result[Run]], *, official: bool) -> None:
    """Make the page and its pictures: the project's own, or beside the results."""
    page = _ROOT / "docs" / "kip-480.md" if official else path.with_suffix(".md")
    images = _ROOT / "docs" / "img" if official else path.parent
    images.mkdir(parents=True, exist_ok=True)
    text = page.read_text(encoding="utf-8") if page.exists() else report.NEW_PAGE
    page.write_text(report.render_page(text, found, "img" if official else "."), encoding="utf-8")
    for load in LOADS.values():
        if (picture := plots.picture(load, found)) is not None:
            (images / report.image_name(load)).write_text(picture, encoding="utf-8")
    _say(f"rendered {page}")


def _parse(data: Mapping[str, Any]) -> Run:
    return Run(**data)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
