"""What `make test` runs again, alone."""

import pytest

from tests.run import MANY, Failures


def report(name: str, *markers: str, outcome: str = "failed") -> pytest.TestReport:
    return pytest.TestReport(name, ("file", 1, name), dict.fromkeys(markers, 1), outcome, None, "call")  # type: ignore[arg-type]


def after(*reports: pytest.TestReport) -> Failures:
    failures = Failures()
    for each in reports:
        failures.pytest_runtest_logreport(each)
    return failures


def test_what_failed_on_a_real_kafka_or_spark_has_a_second_pass() -> None:
    failures = after(report("a", "kafka"), report("b", "spark"), report("c", outcome="passed"))
    assert failures.real == {"a", "b"}
    assert failures.may_pass_alone(1)


def test_a_test_of_our_own_code_has_none_and_then_nothing_has() -> None:
    assert not after(report("a", "kafka"), report("b")).may_pass_alone(1)


def test_a_process_that_crashed_reports_no_marker_and_has_none() -> None:
    assert not after(report("a")).may_pass_alone(1)


def test_many_that_fail_at_once_are_no_chance() -> None:
    assert after(*(report(str(n), "kafka") for n in range(MANY))).may_pass_alone(1)
    assert not after(*(report(str(n), "kafka") for n in range(MANY + 1))).may_pass_alone(1)


@pytest.mark.parametrize("code", [0, 2, 3, 4, 5])
def test_only_failed_tests_are_run_again_not_a_run_that_was_interrupted_or_went_wrong(code: int) -> None:
    assert not after(report("a", "kafka")).may_pass_alone(code)


def test_a_file_that_cannot_be_collected_has_none() -> None:
    failures = after(report("a", "kafka"))
    failures.pytest_collectreport(pytest.CollectReport("file", "failed", None, None))
    assert not failures.may_pass_alone(1)
