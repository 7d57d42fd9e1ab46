"""``python -m benchmarks.faults``: see --help."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve

from benchmarks.command import Book, add_options, exit_code_of, say
from benchmarks.faults import plots, report
from benchmarks.faults.campaign import measure
from benchmarks.faults.java_load import compile_load
from benchmarks.faults.metrics import Run
from benchmarks.faults.one_run import Bench
from benchmarks.faults.plan import BROKERS, PRODUCERS, SCENARIOS, Scenario
from benchmarks.faults.results import Result
from kafka_partition_events.testing import KafkaCluster

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
    book = evolve(_BOOK, elsewhere=arguments.results)
    if arguments.render:
        return book.render_again()
    keep = arguments.results or not (arguments.quick or arguments.producers)
    scenarios = [_chosen(SCENARIOS[name], arguments) for name in arguments.scenarios or SCENARIOS]
    scenarios = [scenario for scenario in scenarios if scenario.producers]
    if not scenarios:
        say("error: none of these producers takes part in these scenarios; see --list")
        return 2
    rounds = 1 if arguments.quick else arguments.rounds
    runs = sum(len(scenario.producers) * rounds for scenario in scenarios)
    seconds = sum(scenario.seconds_a_run * len(scenario.producers) * rounds for scenario in scenarios)
    say(f"{len(scenarios)} scenarios, {runs} runs, about {seconds / 60:.0f} minutes if none is discarded")

    def campaign() -> bool:
        complete = True
        with _bench(scenarios) as bench:
            for scenario in scenarios:
                result = measure(bench, scenario, rounds, say)
                complete = complete and result.complete
                say("\n" + report.render_scenario(scenario, result))
                if keep:
                    book.add(result)
        return complete

    return exit_code_of(campaign)


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
    add_options(parser, of_each="producer")
    parser.add_argument("--list", action=_List, nargs=0, help="show scenarios and producers, and exit")
    return parser


class _List(argparse.Action):
    """Show what there is, as ``--help`` shows help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        for scenario in SCENARIOS.values():
            minutes = 3 * len(scenario.producers) * scenario.seconds_a_run / 60
            say(f"{scenario.name:22}{scenario.title.replace('`', '')}; 3 rounds: {minutes:.0f} min")
            say(f"{'':22}{' '.join(scenario.producers)}")
        parser.exit()


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
        with KafkaCluster(BROKERS, progress=say) as cluster:
            yield Bench(cluster, classpath)


def _draw(found: Mapping[str, Result]) -> dict[str, str | None]:
    return {
        report.image_name(SCENARIOS[name]): plots.picture(SCENARIOS[name], one) for name, one in found.items()
    }


_BOOK = Book(
    name="faults",
    page="benchmarks.md",
    new_page=report.NEW_PAGE,
    parse=Run.from_json,
    render=report.render_page,
    draw=_draw,
)

if __name__ == "__main__":
    sys.exit(main())
