"""``python -m benchmarks.faults``: see --help."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve

from benchmarks.errors import BenchError
from benchmarks.faults import plots, report, results
from benchmarks.faults.campaign import measure
from benchmarks.faults.java_load import compile_load
from benchmarks.faults.one_run import Bench
from benchmarks.faults.plan import BROKERS, PRODUCERS, SCENARIOS, Scenario
from benchmarks.measure import RESULTS
from kafka_partition_events.errors import JvmError
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError

_ROOT = Path(__file__).parents[2]
_OFFICIAL = RESULTS / "faults.json"
_QUICK_S = 6.0

_DESCRIPTION = """\
Freeze, kill and restart real brokers under producers, and compare what becomes of their records.

Each run is a process of its own with a fresh topic; producers take turns, run by run. Runs on a disturbed
machine are thrown out by a rule and repeated (benchmarks/faults/rules.py). Needs Java 17+; a JDK for the Java
producers. Keep the machine to yourself meanwhile.
"""

_EPILOG = """\
what becomes of the results:
  A full scenario (all its producers, not --quick) takes its place in benchmarks/results/faults.json, and
  docs/benchmarks.md and docs/img/faults-*.svg are made anew from that file. With --quick or --producer the
  tables are only shown, unless --results names another file; its page and pictures are then made beside it.

examples:
  python -m benchmarks.faults                                    everything, over an hour
  python -m benchmarks.faults --scenario brownout --scenario kill
  python -m benchmarks.faults --scenario kill --producer librdkafka --producer ours --quick
  python -m benchmarks.faults --render                           page and pictures only

exit codes: 0 all measured; 1 some run could not be made or kept (what there is was rendered); 2 wrong usage,
or Java or the cluster failed; 130 interrupted (finished scenarios are kept).
"""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    official = arguments.results is None
    path: Path = arguments.results or _OFFICIAL
    if arguments.render:
        return _render_only(path, official=official)
    keep = not official or not (arguments.quick or arguments.producers)
    scenarios = [_chosen(SCENARIOS[name], arguments) for name in arguments.scenarios or SCENARIOS]
    scenarios = [scenario for scenario in scenarios if scenario.producers]
    if not scenarios:
        _say("error: none of these producers takes part in these scenarios; see --list")
        return 2
    rounds = 1 if arguments.quick else arguments.rounds
    runs = sum(len(scenario.producers) * rounds for scenario in scenarios)
    seconds = sum(scenario.seconds_a_run * len(scenario.producers) * rounds for scenario in scenarios)
    _say(f"{len(scenarios)} scenarios, {runs} runs, about {seconds / 60:.0f} minutes if none is discarded")
    complete = True
    try:
        with _bench(scenarios) as bench:
            for scenario in scenarios:
                result = measure(bench, scenario, rounds, _say)
                complete = complete and result.complete
                _say("\n" + report.render_scenario(scenario, result))
                if keep:
                    _render(path, results.merge(path, result), official=official)
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except (BenchError, KitError, JvmError) as error:
        _say(f"error: {error}")
        return 2
    return 0 if complete else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    more: dict[str, Any] = {"action": "append", "metavar": "NAME"}
    parser.add_argument(
        "--scenario", dest="scenarios", choices=SCENARIOS, help="only this one; repeatable", **more
    )
    parser.add_argument(
        "--producer", dest="producers", choices=PRODUCERS, help="only this one; repeatable", **more
    )
    parser.add_argument(
        "--rounds", type=_positive, default=3, metavar="N", help="runs of each producer; default %(default)s"
    )
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="keep the results here, not in benchmarks/results/"
    )
    parser.add_argument("--render", action="store_true", help="measure nothing; make page and pictures")
    parser.add_argument("--list", action=_List, nargs=0, help="show scenarios and producers, and exit")
    return parser


class _List(argparse.Action):
    """Show what there is, as ``--help`` shows help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for scenario in SCENARIOS.values():
            minutes = 3 * len(scenario.producers) * scenario.seconds_a_run / 60
            _say(f"{scenario.name:22}{scenario.title.replace('`', '')}; 3 rounds: {minutes:.0f} min")
            _say(f"{'':22}{' '.join(scenario.producers)}")
        parser.exit()


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _chosen(scenario: Scenario, arguments: argparse.Namespace) -> Scenario:
    """Return the scenario with the wanted producers only, shorter if quick."""
    wanted = arguments.producers or scenario.producers
    producers = tuple(name for name in scenario.producers if name in wanted)
    # A rolling restart takes the time it takes.
    short = arguments.quick and scenario.fault != "rolling"
    return evolve(scenario, producers=producers, seconds=_QUICK_S if short else scenario.seconds)


@contextmanager
def _bench(scenarios: Sequence[Scenario]) -> Iterator[Bench]:
    """Compile what is needed, and start the cluster."""
    java = any(PRODUCERS[name].java for scenario in scenarios for name in scenario.producers)
    with tempfile.TemporaryDirectory(prefix="bench-faults-java-") as scratch:
        classpath = compile_load(Path(scratch)) if java else None
        with KafkaCluster(BROKERS, progress=_say) as cluster:
            yield Bench(cluster, classpath)


def _render_only(path: Path, *, official: bool) -> int:
    found = results.load(path)
    if not found:
        _say(f"error: no results in {path}; measure first")
        return 2
    _render(path, found, official=official)
    return 0


def _render(path: Path, found: dict[str, results.Result], *, official: bool) -> None:
    """Make the page and its pictures: the project's own, or beside the results."""
    page = _ROOT / "docs" / "benchmarks.md" if official else path.with_suffix(".md")
    images = _ROOT / "docs" / "img" if official else path.parent
    images.mkdir(parents=True, exist_ok=True)
    text = page.read_text(encoding="utf-8") if page.exists() else report.NEW_PAGE
    page.write_text(report.render_page(text, found, "img" if official else "."), encoding="utf-8")
    for name, result in found.items():
        if (picture := plots.picture(SCENARIOS[name], result)) is not None:
            (images / report.image_name(SCENARIOS[name])).write_text(picture, encoding="utf-8")
    _say(f"rendered {page}")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
