"""``python -m benchmarks.faults``: see --help."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve

from benchmarks.command import Book, Listing, add_rounds, exit_code_of, parser_of, say
from benchmarks.errors import BenchError
from benchmarks.faults import medians, plots, report
from benchmarks.faults.campaign import Clock, measure, warm_up
from benchmarks.faults.java_load import compile_load
from benchmarks.faults.layouts import ClusterKind
from benchmarks.faults.metrics import Result, Run
from benchmarks.faults.one_run import Bench
from benchmarks.faults.plan import FAULTS, PRODUCERS, ROUNDS, SCENARIOS, Scenario
from kafka_partition_events.testing import KafkaCluster, KitError

_ROOT = Path(__file__).parents[2]

_DESCRIPTION = """\
Freeze, kill and cut off real brokers under producers, and compare what becomes of their records.

Each run is a process of its own with a fresh topic; producers take turns, run by run. Runs on a disturbed
machine are thrown out by a rule and repeated (benchmarks/faults/rules.py). Scenarios that need the same
cluster share it. Needs Java 17+; a JDK for the Java producers, a C compiler for the slow disk. Keep the
machine to yourself meanwhile.
"""

_EPILOG = """\
what becomes of the results:
  A full scenario (all its producers, not --quick) takes its place in benchmarks/results/faults.json, and
  docs/benchmarks.md, docs/img/faults-*.svg and the tables in README.md, docs/keys.md, docs/asyncio.md and
  docs/reliability.md are made anew from that file. With
  --quick or --producers the tables are only shown, unless --results names another file; its page and pictures
  are then made beside it.

examples:
  python -m benchmarks.faults                                    everything: three hours
  python -m benchmarks.faults --fault frozen killed --producers librdkafka ours ours-hedge
  python -m benchmarks.faults --scenario frozen-keyed
  python -m benchmarks.faults --render                           page and pictures only

exit codes: 0 all measured; 1 some run could not be made or kept (what there is was rendered); 2 wrong usage,
or there is no JDK for the Java producers; 130 interrupted (finished scenarios are kept).
"""


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    book = evolve(_BOOK, elsewhere=arguments.results)
    if arguments.render:
        return book.render_again()
    keep = arguments.results or not (arguments.quick or arguments.producers)
    scenarios = [_as_wanted(scenario, arguments) for scenario in _chosen(arguments)]
    scenarios = [scenario for scenario in scenarios if scenario.producers]
    if not scenarios:
        say("error: there is no such scenario with these producers; see --list")
        return 2
    rounds = 1 if arguments.quick else arguments.rounds
    runs = {scenario.name: len(scenario.producers) * rounds for scenario in scenarios}
    clock = Clock(sum(scenario.seconds_a_run * runs[scenario.name] for scenario in scenarios))
    say(f"{len(scenarios)} scenarios, {sum(runs.values())} runs, {clock.left()} if none is discarded")

    def measure_one(bench: Bench, scenario: Scenario) -> bool:
        result = measure(bench, scenario, rounds, clock, say)
        say("\n" + report.render_scenario(scenario, result))
        if keep:
            book.add(result)
        return result.complete

    def campaign() -> bool:
        with _java_load(scenarios) as classpath:
            return _in_clusters(scenarios, classpath, measure_one)

    return exit_code_of(campaign)


def _in_clusters(
    scenarios: Sequence[Scenario], classpath: str | None, measure_one: Callable[[Bench, Scenario], bool]
) -> bool:
    """Measure in one cluster what can share it, and the rest in a new one when that is beyond repair."""
    complete = True
    for kind in dict.fromkeys(scenario.cluster for scenario in scenarios):
        to_do = [scenario for scenario in scenarios if scenario.cluster == kind]
        while to_do:
            before = len(to_do)
            try:
                with _bench(kind, classpath) as bench:
                    warm_up(bench, to_do[0].layout, say, keyed=to_do[0].keyed)
                    while to_do:
                        complete = measure_one(bench, to_do.pop(0)) and complete
            except (BenchError, KitError) as error:
                say(f"error: {error}")
                complete = False
                if len(to_do) == before:  # there is no such cluster to be had
                    break
    return complete


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("faults", _DESCRIPTION, _EPILOG, quick="one short round")
    more: dict[str, Any] = {"action": "extend", "nargs": "+", "metavar": "NAME"}
    parser.add_argument("--fault", dest="faults", choices=FAULTS, help="only these", **more)
    parser.add_argument("--scenario", dest="scenarios", choices=SCENARIOS, help="only these", **more)
    parser.add_argument(
        "--producers", "--producer", dest="producers", choices=PRODUCERS, help="only these", **more
    )
    add_rounds(parser, of_each="producer", rounds=ROUNDS)
    parser.add_argument(
        "--list", action=Listing, lines=_listed, help="show scenarios and producers, and exit"
    )
    return parser


def _listed() -> Iterator[str]:
    for scenario in SCENARIOS.values():
        minutes = ROUNDS * len(scenario.producers) * scenario.seconds_a_run / 60
        yield f"{scenario.name:26}{scenario.title.replace('`', '')}; {minutes:.0f} min"
        yield f"{'':26}{' '.join(scenario.producers)}"


def _chosen(arguments: argparse.Namespace) -> list[Scenario]:
    """Return the scenarios that are asked for: by name, or by fault."""
    return [
        scenario
        for scenario in SCENARIOS.values()
        if scenario.name in (arguments.scenarios or SCENARIOS)
        and scenario.fault.name in (arguments.faults or FAULTS)
    ]


def _as_wanted(scenario: Scenario, arguments: argparse.Namespace) -> Scenario:
    """Return the scenario with the wanted producers only, and as long as wanted."""
    wanted = arguments.producers or scenario.producers
    seconds = scenario.seconds
    # A rolling restart takes the time it takes.
    if arguments.quick and scenario.fault.name != "rolling":
        seconds = 6.0
    producers = tuple(name for name in scenario.producers if name in wanted)
    return evolve(scenario, producers=producers, seconds=seconds)


@contextmanager
def _java_load(scenarios: Sequence[Scenario]) -> Iterator[str | None]:
    """Compile the Java producers' load, if any takes part; the value is the class path."""
    java = any(PRODUCERS[name].java for scenario in scenarios for name in scenario.producers)
    with tempfile.TemporaryDirectory(prefix="bench-faults-java-") as scratch:
        yield compile_load(Path(scratch)) if java else None


@contextmanager
def _bench(kind: ClusterKind, classpath: str | None) -> Iterator[Bench]:
    """Start a cluster."""
    with KafkaCluster(
        kind.brokers,
        session_timeout_ms=kind.session_ms,
        links=kind.links or False,
        slow_disks=kind.slow_disk,
        progress=say,
    ) as cluster:
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
    also={
        _ROOT / "README.md": medians.render_readme,
        _ROOT / "docs" / "keys.md": medians.render_keys,
        _ROOT / "docs" / "asyncio.md": medians.render_asyncio,
        _ROOT / "docs" / "reliability.md": medians.render_side_by_side,
    },
)

if __name__ == "__main__":
    sys.exit(main())
