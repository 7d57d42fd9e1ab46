"""Run all tests: `make test`.

The demo's first, because it compares producers and takes a machine to itself; then all others in several
processes. What failed there on real brokers or on Spark is run again, alone: many JVMs share two cores in the
first pass, and whoever is late may be late for want of a core (docs/decisions/2026-11-26-second-pass.md). A
test of our own code alone gets no second pass, and nothing does when one of those fails, or many do.
"""

import argparse
import subprocess
import sys

import pytest
from attrs import define, field

DEMO = "tests/integration/test_demo.py"
REAL = {"kafka", "spark"}
MANY = 8
"""So many at once are no chance."""


@define
class Failures:
    """A plugin of pytest: what failed, and whether it ran on something real."""

    real: set[str] = field(factory=set)
    others: set[str] = field(factory=set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            (self.real if REAL & report.keywords.keys() else self.others).add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.others.add(report.nodeid)

    def may_pass_alone(self, code: int) -> bool:
        """Say whether all that failed, few, ran on something real. A crash reports no marker."""
        return code == pytest.ExitCode.TESTS_FAILED and not self.others and 0 < len(self.real) <= MANY


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where each test has passed."""
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("--at-once", type=int, default=3, metavar="N", help="processes; 1: all in this one")
    at_once = parser.parse_args(arguments).at_once
    demo = alone([DEMO])
    failures, options = Failures(), ["--ignore", DEMO, "--durations=25", "--durations-min=5"]
    if at_once > 1:
        options += ["--numprocesses", str(at_once), "--dist=loadfile", "--no-loadscope-reorder"]
    others = pytest.main(options, plugins=[failures])
    if failures.may_pass_alone(others):
        tests = sorted(failures.real)
        print(f"\n== failed beside others on real brokers or Spark; again, alone: {len(tests)}", flush=True)
        others = alone(tests)
        print(f"== {'passed' if others == 0 else 'FAILED'} alone: {' '.join(tests)}", flush=True)
    return demo or int(others)


def alone(tests: list[str]) -> int:
    """Run tests in a process of their own, one after the other."""
    return subprocess.run([sys.executable, "-m", "pytest", *tests], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
