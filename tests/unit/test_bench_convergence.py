"""The convergence benchmark's pure parts: what simulated instances say, and the page."""

import json

from attrs import evolve

from benchmarks.convergence import report
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


def found(*fleets: list[Run]) -> dict[str, Result[Run]]:
    return {
        str(runs[0].instances): Result(
            str(runs[0].instances), len(runs), {"tracker": Measured(runs)}, ENVIRONMENT
        )
        for runs in fleets
    }


def test_of_several_rounds_it_tells_the_median_the_least_and_the_most() -> None:
    rounds = [evolve(GOOD, converged_s=seconds) for seconds in (90.0, 70.4, 71.0)]
    assert "| 1,000 | 38 | 71 (70 to 90) | 1,000 |" in report.render(found(rounds))
