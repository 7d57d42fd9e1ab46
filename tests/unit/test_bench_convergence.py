"""The convergence benchmark's pure parts: what simulated instances say, and the page."""

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve

from benchmarks.convergence import plots, report
from benchmarks.convergence.fleet import Fleet
from benchmarks.convergence.one_run import Run
from benchmarks.kept import Measured, Result
from benchmarks.measure import Environment
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, Link, Story, gated

ENVIRONMENT = Environment("3.11", 2, "Linux", {"confluent-kafka": "2.16"}, "2026-01-01 00:00 UTC")
GOOD = Run(
    instances=1_000,
    armed_s=38.0,
    converged_s=70.4,
    state="converged",
    followed=1_000,
    records={"changes": 20, "acks": 2_800, "leases": 2_500},
    bytes={"changes": 30_000, "acks": 1_100_000, "leases": 1_400_000},
    idle_bytes_s=15_000.0,
    tracker_mib=90.0,
    tracker_peak_mib=95.5,
    tracker_cpu_s=4.25,
    idle_cpu=0.021,
    behind_s=0.4,
)


def seen(count: int) -> Cluster:
    return evolve(cluster_of({"orders": [1] * count}), cluster_id=CLUSTER)


class TestFleet:
    def fleet(self, size: int, link: Link) -> Fleet:
        fleet = Fleet(size, link, lambda: seen(6))
        for instance in fleet._instances:
            instance.duties.spread = 0.0
        return fleet

    def test_each_instance_is_born_once(self) -> None:
        link = Link()
        fleet = self.fleet(3, link)
        assert fleet.run_until(lambda: fleet.born == 3, 10.0)
        assert link.of("leases", "instance_id") == [f"orders-api-0000{n}" for n in range(3)]
        assert fleet.records_of["leases"] == 3
        texts = [json.dumps(lease, separators=(",", ":")) for _, lease in link.published]
        assert fleet.bytes_of["leases"] == len("orders-api-00000") * 3 + len("".join(texts))

    def test_instances_hold_a_gate_that_is_asked_for(self) -> None:
        link, story = Link(), Story()
        fleet = self.fleet(2, link)
        assert fleet.run_until(lambda: fleet.born == 2, 10.0)
        story.request(gated(topic_id=None))
        link.write(story.change)
        for instance in fleet._instances:
            fleet._read()
            fleet._look(instance, 1.0)
        assert link.of("acks", "status") == ["held", "held"]

    def test_it_gives_up(self) -> None:
        assert not self.fleet(1, Link()).run_until(lambda: False, 0.05)


def found(*fleets: list[Run]) -> dict[str, Result[Run]]:
    return {
        str(runs[0].instances): Result(
            str(runs[0].instances), len(runs), {"tracker": Measured(runs)}, ENVIRONMENT
        )
        for runs in fleets
    }


def test_the_page_lists_fleets_by_size_and_is_made_anew_each_time() -> None:
    results = found([evolve(GOOD, instances=10_000)], [GOOD])
    page = report.render_page(report.NEW_PAGE, results, "img")
    assert page.index("| 1,000 | 38 | 70 | 1,000 | 2,800 | 1.10 |") < page.index("| 10,000 |")
    assert "All changes ended converged." in page
    assert report.render_page(page, results, "img") == page


def test_of_several_rounds_it_tells_the_median_the_least_and_the_most() -> None:
    rounds = [evolve(GOOD, converged_s=seconds) for seconds in (90.0, 70.4, 71.0)]
    assert "| 1,000 | 38 | 71 (70 to 90) | 1,000 |" in report.render(found(rounds))


class TestPicture:
    def test_is_well_formed_and_names_each_fleet_once_in_each_panel(self) -> None:
        slow = evolve(GOOD, instances=10_000, converged_s=80.0)
        drawn = plots.picture([[GOOD], [slow, evolve(slow, converged_s=90.0)]])
        assert drawn is not None
        words = [element.text for element in ET.fromstring(drawn).iter() if element.text]  # noqa: S314 - our own
        assert words.count("1,000") == words.count("10,000") == 3

    def test_of_nothing_is_none(self) -> None:
        assert plots.picture([]) is None

    @pytest.mark.parametrize(("value", "above"), [(0.7, 1), (1, 1), (1.2, 2), (47, 50), (60, 100)])
    def test_its_axes_end_at_round_numbers(self, value: Any, above: float) -> None:
        assert plots._round_up(value) == pytest.approx(above)
