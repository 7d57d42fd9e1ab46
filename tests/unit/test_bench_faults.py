"""The fault benchmark's pure parts: what it counts, what it throws out, what it claims."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from benchmarks import kept, markdown
from benchmarks.errors import BenchError
from benchmarks.faults import __main__ as command
from benchmarks.faults import plots, report
from benchmarks.faults.campaign import Clock
from benchmarks.faults.inject import INJECT
from benchmarks.faults.layouts import LAYOUTS, MAIN, ClusterKind
from benchmarks.faults.metrics import (
    NOT_REPORTED,
    Figures,
    Record,
    Run,
    Window,
    achieved,
    before_p99_ms,
    behind_ms,
    in_flight,
    latency_series,
    quantile,
    records_of,
)
from benchmarks.faults.plan import FAULTS, PRODUCERS, SCENARIOS, Scenario
from benchmarks.faults.results import Measured, Result
from benchmarks.faults.rules import why_discarded
from benchmarks.faults.spec import KEYS, LoadSpec, Values, key_of, parse_value
from benchmarks.faults.tape import Tape
from benchmarks.faults.targets import Target, judge, ratio, targets_of
from benchmarks.measure import RESULTS, Environment
from kafka_partition_events.testing import KitError

ROOT = Path(__file__).resolve().parents[2]
MS = 1_000_000
S = 1_000 * MS
ENVIRONMENT = Environment("3.11", 2, "Linux", {"confluent-kafka": "2.16"}, "2026-01-01 00:00 UTC")
GOOD = Figures(
    records=100,
    p50_ms=5,
    p99_ms=20,
    max_ms=30,
    late=0.0,
    to_faulty=0.01,
    failed=0,
    unreported=0,
    lost=0,
    vanished=0,
    duplicates=0,
)


def record(sent_ms: float, latency_ms: float, **changes: Any) -> Record:
    sent = round(sent_ms * MS)
    made = Record(sent, sent + round(latency_ms * MS), 1, None, copies=1, limit_ms=3_000)
    return made._replace(**changes)


def run(number: int = 0, figures: Figures = GOOD, **changes: Any) -> Run:
    made = Run(
        round=number,
        figures=figures,
        before_p99_ms=8.0,
        achieved=1.0,
        behind_ms=1.0,
        in_flight=7,
        steal=0.0,
        complete=True,
        reported_again=0,
        errors={},
        counters="",
        series="",
    )
    return evolve(made, **changes)


def result(scenario: str = "brownout", rounds: int = 3, **producers: list[Run]) -> Result:
    named = {name.replace("_", "-"): Measured(runs) for name, runs in producers.items()}
    return Result(scenario, rounds, named, ENVIRONMENT)


def runs(figure: str, *values: float) -> list[Run]:
    changed: list[dict[str, Any]] = [{figure: value} for value in values]
    return [run(number, evolve(GOOD, **changes)) for number, changes in enumerate(changed)]


class TestTheDiscardRule:
    def test_keeps_a_quiet_run(self) -> None:
        assert why_discarded(run(), "in-turns", 3) is None

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"before_p99_ms": 60.1}, "before the fault"),
            ({"steal": 0.11}, "stolen"),
            ({"achieved": 0.94}, "rate"),
            ({"complete": False}, "course"),
        ],
    )
    def test_throws_out_a_disturbed_one(self, changes: dict[str, Any], word: str) -> None:
        assert word in (why_discarded(run(**changes), "killed", 3) or "")

    def test_takes_the_limits_themselves_as_good(self) -> None:
        assert why_discarded(run(before_p99_ms=60.0, steal=0.10, achieved=0.95), "killed", 3) is None

    def test_expects_less_calm_of_six_brokers_on_two_cores(self) -> None:
        assert why_discarded(run(before_p99_ms=150.0), "killed", 6) is None
        assert why_discarded(run(before_p99_ms=150.1), "killed", 6) is not None

    def test_goes_by_stolen_time_alone_under_cpu_pressure(self) -> None:
        assert why_discarded(run(before_p99_ms=500.0, achieved=0.5), "busy", 3) is None
        assert why_discarded(run(steal=0.5), "busy", 3) is not None


class TestFigures:
    def test_a_quantile_is_a_value_that_was_seen(self) -> None:
        assert quantile([1, 2, 3, 4], 0.5) == 2
        assert quantile([float(n) for n in range(1, 101)], 0.99) == 99
        assert quantile([], 0.99) == 0

    def test_latency_is_that_of_the_records_sent_from_the_fault_on(self) -> None:
        figures = Figures.of([record(0, 900), record(10, 5), record(11, 50)], 10 * MS, 1)
        assert (figures.max_ms, figures.records) == (50, 3)

    def test_a_failed_record_counts_with_the_delivery_limit_whenever_its_client_says_so(self) -> None:
        assert Figures.of([record(1, 3_950, error="_MSG_TIMED_OUT")], 0, 1).p99_ms == 3_000

    def test_late_is_slow_or_failed(self) -> None:
        records = [record(1, 100), record(1, 101), record(1, 5, error="X"), record(1, 5, error=NOT_REPORTED)]
        assert Figures.of(records, 0, 1).late == 0.75

    def test_failed_counts_from_the_beginning_because_the_fault_takes_what_is_in_flight(self) -> None:
        records = [record(0, 3_000, error="_MSG_TIMED_OUT", copies=0), record(0, 1, error=NOT_REPORTED)]
        figures = Figures.of(records, 10 * MS, 1)
        assert (figures.failed, figures.unreported, figures.lost, figures.vanished) == (2, 1, 1, 0)

    def test_a_delivered_record_that_is_not_in_the_topic_has_vanished(self) -> None:
        assert Figures.of([record(0, 5, copies=0)], 0, 1).vanished == 1

    def test_copies_are_counted_beyond_the_first(self) -> None:
        assert Figures.of([record(0, 5, copies=3), record(0, 5)], 0, 1).duplicates == 2

    def test_the_share_of_the_faulty_broker_goes_by_the_partitions_that_it_leads(self) -> None:
        records = [record(1, 5, broker=broker) for broker in (1, 2, 3, 1, None)]
        assert Figures.of(records, 0, faulty=1).to_faulty == 0.4
        assert Figures.of(records, 0, faulty=None).to_faulty is None

    def test_nothing_sent_is_no_error(self) -> None:
        assert Figures.of([], 0, 1).p99_ms == 0


class TestWhatARunTellsAboutItself:
    def test_the_baseline_ends_short_of_the_fault(self) -> None:
        records = [record(0, 5), record(850, 7), record(950, 400), record(1_001, 400)]
        assert before_p99_ms(records, S) == 7

    def test_achieved_is_what_was_sent_of_what_was_due(self) -> None:
        records = [record(n, 1) for n in range(9)]
        assert achieved(records, Window(0, 10 * MS, S), rate=1_000) == 0.9

    def test_behind_is_the_worst_lag(self) -> None:
        assert behind_ms([0, 1 * MS, 7 * MS, -1], 0, rate=1_000) == 5

    def test_in_flight_is_what_the_fault_finds_outstanding(self) -> None:
        assert in_flight([record(0, 5), record(6, 5), record(10, 5)], 10 * MS) == 1

    def test_the_series_has_a_word_for_each_tenth_of_a_second(self) -> None:
        records = [record(10, 5), record(20, 9), record(210, 30)]
        assert latency_series(records, Window(0, 0, 300 * MS)) == "9 - 30"


class TestWhatProcessesTellEachOther:
    def test_a_tape_comes_back_as_it_was(self, tmp_path: Path) -> None:
        tape = Tape.blank(3)
        tape.sent[0] = tape.sent[1] = 5
        tape.report(0, 4, None)
        tape.report(1, 2, "_MSG_TIMED_OUT")
        tape.report(1, 2, None)
        tape.report(-1, 2, None)
        tape.write(tmp_path / "tape")
        back = Tape.read(tmp_path / "tape")
        assert (back.errors, back.reported_again) == (["_MSG_TIMED_OUT"], 1)
        records = records_of(back, 0, {(0, 0): 2}, LAYOUTS["A"])
        assert [(each.error, each.broker, each.copies) for each in records] == [
            (None, 2, 2),
            ("_MSG_TIMED_OUT", 3, 0),
        ]

    def test_a_report_that_names_no_partition_leaves_the_chosen_one(self) -> None:
        tape = Tape.blank(2)
        tape.choose(0, 3)
        tape.report(0, -1, "KafkaTimeoutError")
        tape.choose(1, 3)
        tape.report(1, 5, None)
        assert tape.partition.tolist() == [3, 5]

    def test_a_record_that_nobody_reported_on_counts_with_the_delivery_limit(self) -> None:
        tape = Tape.blank(1)
        tape.sent[0] = 0
        (only,) = records_of(tape, 0, {}, LAYOUTS["C"])
        assert (only.error, only.broker, only.latency_ms) == (NOT_REPORTED, None, 5_000)
        assert in_flight([only], fault_ns=1) == 1

    @pytest.mark.parametrize("number", [-2_000, -1, 0, 1, 449_999])
    def test_a_value_names_its_record(self, number: int) -> None:
        values = Values("ab12", 2)
        value = values.make(number)
        assert (len(value), values.number(value), parse_value(value)) == (100, number, ("ab12", 2, number))

    def test_arguments_come_back_as_they_were(self) -> None:
        spec = LoadSpec(
            "ours", "h:1,h:2", "t", "ab12", 1, 2_000, 18_000, True, "1", 3_000, 2_500, 4.5, Path("out")
        )
        assert LoadSpec.parse(spec.words()) == spec

    def test_each_record_has_one_of_many_keys_that_are_as_likely_as_each_other(self) -> None:
        counts = Counter(key_of(n, keyed=True) for n in range(10 * KEYS))
        assert len(counts) > 0.99 * KEYS
        assert max(counts.values()) < 30
        assert key_of(1, keyed=False) is None


class TestThePlan:
    @pytest.mark.parametrize("name", SCENARIOS)
    def test_topics_are_laid_out_so_that_leaders_are_known(self, name: str) -> None:
        layout = SCENARIOS[name].layout
        assignment = layout.assignment()
        assert len(assignment) == layout.partitions
        for partition, replicas in assignment.items():
            assert replicas[0] == layout.leader_of(partition)
            assert len(set(replicas)) == layout.replication
            assert set(replicas) <= set(range(1, layout.brokers + 1))

    def test_each_broker_holds_as_much_as_each_other_and_has_followers_of_each(self) -> None:
        assignment = LAYOUTS["C"].assignment()
        held = [broker for replicas in assignment.values() for broker in replicas]
        assert {held.count(broker) for broker in range(1, 7)} == {12}
        pairs = {(leader, follower) for leader, *followers in assignment.values() for follower in followers}
        assert len(pairs) == 6 * 5

    def test_where_partitions_are_to_refuse_one_broker_less_is_too_few(self) -> None:
        layout = SCENARIOS["C-min-isr"].layout
        assert (layout.replication, layout.min_insync) == (2, 2)
        assert sum(1 in replicas for replicas in layout.assignment().values()) == 8

    def test_there_is_a_deed_for_every_fault(self) -> None:
        assert set(INJECT) == set(FAULTS)

    def test_all_layouts_meet_all_that_a_client_can_meet(self) -> None:
        faults = {
            name: {s.fault.name for s in SCENARIOS.values() if s.layout.name == name} for name in LAYOUTS
        }
        common = {"in-turns", "frozen", "killed", "link-throttled", "brokers-swallowed", "slow-disk"}
        assert all(common <= of for of in faults.values())
        assert faults[MAIN] == set(FAULTS)

    def test_those_that_were_published_keep_their_names_and_their_length(self) -> None:
        assert {name: SCENARIOS[name].seconds for name in ("brownout", "kill", "rolling", "pressure")} == {
            "brownout": 9.0,
            "kill": 9.0,
            "rolling": 45.0,
            "pressure": 9.0,
        }
        published = kept.load(RESULTS / "faults.json", Run.from_json)
        assert set(published) <= set(SCENARIOS)

    @pytest.mark.parametrize("name", SCENARIOS)
    def test_pictures_are_of_scenarios_that_keep_what_they_show(self, name: str) -> None:
        scenario = SCENARIOS[name]
        assert set(scenario.producers) <= set(PRODUCERS)
        assert scenario.plot is None or scenario.fault.plot is not None

    def test_the_time_left_goes_by_the_pace_so_far(self) -> None:
        clock = Clock(600)
        assert clock.left() == "about 10 minutes left"
        clock.passed(100, 200)
        assert clock.left() == "about 17 minutes left"


class TestTheCommand:
    def chosen(self, *words: str) -> list[str]:
        arguments = command._parser().parse_args(words)
        return [command._as_wanted(each, arguments).name for each in command._chosen(arguments)]

    def test_scenarios_are_chosen_by_layout_and_fault(self) -> None:
        chosen = self.chosen("--layout", "C", "--fault", "frozen", "killed")
        assert chosen == ["C-frozen", "C-killed", "C-frozen-keyed", "C-killed-keyed"]
        assert "kill-keyed" in self.chosen("--layout", "A", "--fault", "killed")

    def test_or_by_their_names_one_by_one(self) -> None:
        assert self.chosen("--scenario", "kill", "--scenario", "brownout") == ["brownout", "kill"]

    def test_calm_lasts_as_long_as_is_wanted(self) -> None:
        arguments = command._parser().parse_args(["--calm-minutes", "2"])
        assert command._as_wanted(SCENARIOS["C-calm-hour"], arguments).seconds == 123


class TestClusters:
    @pytest.fixture
    def started(self, monkeypatch: pytest.MonkeyPatch) -> list[ClusterKind]:
        started: list[ClusterKind] = []

        @contextmanager
        def bench(kind: ClusterKind, classpath: str | None) -> Iterator[str]:
            started.append(kind)
            if kind.slow_disk:
                raise BenchError("no compiler")
            yield "bench"

        monkeypatch.setattr(command, "_bench", bench)
        monkeypatch.setattr(command, "warm_up", lambda *_, **_options: None)
        return started

    def test_are_shared_by_what_needs_the_same(self, started: list[ClusterKind]) -> None:
        scenarios = [SCENARIOS[name] for name in ("D-frozen", "D-link-slowed", "B-killed", "D-min-isr")]
        measured: list[str] = []

        def measure_one(_: object, scenario: Scenario) -> bool:
            measured.append(scenario.name)
            return True

        assert command._in_clusters(scenarios, None, measure_one)
        assert [kind.links for kind in started] == [None, "clients"]
        assert measured == ["D-frozen", "B-killed", "D-min-isr", "D-link-slowed"]

    def test_one_that_is_beyond_repair_costs_the_scenario_that_it_met(
        self, started: list[ClusterKind]
    ) -> None:
        def measure_one(_: object, scenario: Scenario) -> bool:
            if scenario.name == "C-frozen":
                raise KitError("not in sync")
            measured.append(scenario.name)
            return True

        measured: list[str] = []
        scenarios = [SCENARIOS[name] for name in ("C-frozen", "C-slow-disk", "C-killed")]
        assert not command._in_clusters(scenarios, None, measure_one)
        assert measured == ["C-killed"]
        assert [kind.slow_disk for kind in started] == [False, False, True]


class TestTargets:
    RATIO = Target("ours", "p99_ms", 1 / 15, "librdkafka")
    NONE = Target("ours-hedge", "late", 0)

    def test_the_median_of_the_rounds_decides_on_a_ratio(self) -> None:
        seen = result(ours=runs("p99_ms", 20, 20, 400), librdkafka=runs("p99_ms", 400, 400, 400))
        verdict = judge(self.RATIO, seen)
        assert verdict.reached
        assert verdict.spread is not None
        assert (verdict.spread.low, verdict.spread.high) == (0.05, 1.0)

    def test_a_ratio_is_made_within_a_round(self) -> None:
        ours = [run(2, evolve(GOOD, p99_ms=20))]
        verdict = judge(self.RATIO, result(ours=ours, librdkafka=runs("p99_ms", 9, 9, 400)))
        assert verdict.spread is not None
        assert verdict.spread.median == 0.05

    def test_every_run_must_keep_a_limit_on_the_figure_itself(self) -> None:
        assert judge(self.NONE, result(ours_hedge=runs("late", 0, 0, 0))).reached
        assert judge(self.NONE, result(ours_hedge=runs("late", 0, 0, 0.001))).reached is False

    def test_what_was_not_measured_is_neither_reached_nor_missed(self) -> None:
        assert judge(self.RATIO, result(ours=runs("p99_ms", 20))).reached is None

    def test_two_zeros_are_equal_and_nothing_is_as_good_as_zero(self) -> None:
        assert (ratio(0, 0), ratio(1, 0), ratio(1, 4)) == (1.0, math.inf, 0.25)

    def test_a_limit_on_a_ratio_may_be_one_for_each_round(self) -> None:
        seen = result(ours=runs("failed", 1, 1, 40), librdkafka=runs("failed", 400, 400, 400))
        median = Target("ours", "failed", 1 / 50, "librdkafka")
        assert judge(median, seen).reached
        assert judge(evolve(median, in_each=True), seen).reached is False

    @pytest.mark.parametrize("name", SCENARIOS)
    def test_targets_are_of_producers_that_take_part(self, name: str) -> None:
        for target in targets_of(SCENARIOS[name]):
            assert {target.ours, target.beside or target.ours} <= set(SCENARIOS[name].producers)

    def test_what_was_asked_of_the_main_layout_is_judged(self) -> None:
        asked = {
            each.fault.name for each in SCENARIOS.values() if each.layout.name == MAIN and targets_of(each)
        }
        assert asked == {
            "frozen", "in-turns", "killed", "min-isr", "link-throttled", "calm", "busy", "rolling",
        }  # fmt: skip


class TestThePage:
    def test_tells_discards_failures_to_run_and_broken_promises(self) -> None:
        seen = result(ours=[run(figures=evolve(GOOD, vanished=3), reported_again=2)])
        seen.producers["ours"].discarded.append("round 1: 50% of the processors' time was stolen")
        seen.producers["java"] = Measured(broken="no JDK")
        text = report.render_scenario(SCENARIOS["brownout"], seen)
        for words in ("3 records were reported as delivered and are not", "2 records were reported on more"):
            assert words in text
        assert "discarded: round 1: 50%" in text
        assert "could not be run: no JDK" in text

    @pytest.mark.parametrize(
        ("value", "text"), [(0, "0%"), (0.001, "0.10%"), (0.00004, "< 0.01%"), (0.1, "10%"), (0.256, "26%")]
    )
    def test_writes_shares(self, value: float, text: str) -> None:
        assert markdown.percent(value) == text

    def test_writes_small_ratios_as_fractions(self) -> None:
        assert [markdown.times(x) for x in (1 / 15, 0.03, 0, 1.1, math.inf)] == [
            "1/15",
            "1/33",
            "0.00",
            "1.10",
            "infinite",
        ]


class TestThePictures:
    def test_curves_are_medians_of_the_runs(self) -> None:
        made = [run(series=words) for words in ("5 - 30", "9 - 10", "7 - -")]
        assert plots.median_series(made) == [7, None, 20]


class TestTheResultsFile:
    def test_a_scenario_takes_the_place_of_its_older_result(self, tmp_path: Path) -> None:
        path = tmp_path / "results" / "faults.json"
        kept.merge(path, result("kill", ours=[run()]), Run.from_json)
        kept.merge(path, result("brownout", ours=[run()]), Run.from_json)
        newer = result("kill", ours=[run(in_flight=9)])
        assert kept.merge(path, newer, Run.from_json)["kill"] == newer
        assert kept.load(path, Run.from_json) == {
            "kill": newer,
            "brownout": result("brownout", ours=[run()]),
        }

    def test_complete_means_a_kept_run_for_every_round(self) -> None:
        assert result(rounds=1, ours=[run()]).complete
        assert not result(rounds=2, ours=[run()]).complete
