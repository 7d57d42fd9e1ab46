"""The rows of supported versions: what they run exists, and README and workflow name the same ones."""

import re
from pathlib import Path

import pytest
import yaml

from tests.matrix import __main__ as matrix
from tests.matrix.__main__ import ROOT, Row, all_rows, main, run


def test_what_rows_run_exists() -> None:
    for name, row in all_rows().items():
        assert row.tests, name
        for each in row.tests:
            assert each.startswith("-W") or (ROOT / each).exists(), (name, each)


def test_the_workflow_has_all_rows() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/matrix.yml").read_text())
    assert workflow["jobs"]["row"]["strategy"]["matrix"]["row"] == list(all_rows())


def test_the_readme_claims_no_more_than_rows_show() -> None:
    section = (ROOT / "README.md").read_text().partition("## Supported versions")[2].partition("\n## ")[0]
    claims = re.findall(r"^\| (Kafka|Python|PySpark) \| ([\d., ]+)", section, re.MULTILINE)
    assert len(claims) == 3
    for product, versions in claims:
        for version in re.findall(r"\d+\.\d+", versions):
            assert f"{product.lower()}-{version}" in all_rows()


def test_a_table_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {"old": (True, "31 passed"), "new": (False, "1 failed, 30 passed")}
    rows = {"kafka-3.7": Row(("old",)), "kafka-3.9": Row(("new",))}
    monkeypatch.setattr(matrix, "all_rows", lambda: rows)
    monkeypatch.setattr(matrix, "run", lambda row: answers[row.tests[0]])
    assert main([]) == 1
    *_, title, first, second = capsys.readouterr().out.splitlines()
    assert title.split() == ["row", "minutes", "tests"]
    assert first.split() == ["kafka-3.7", "green", "0.0", "31", "passed"]
    assert second.split() == ["kafka-3.9", "RED", "0.0", "1", "failed,", "30", "passed"]
    assert main(["kafka-3.7"]) == 0


def test_an_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["kafka-2.8"])
    assert "no such row: kafka-2.8; there are kafka-3.7, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "result"),
    [("assert True", (True, "1 passed")), ("assert False", (False, "1 failed"))],
)
def test_a_row_is_green_if_pytest_is(tmp_path: Path, body: str, result: tuple[bool, str]) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert run(Row((f"-c{tmp_path / 'pytest.ini'}", "-pno:ddtrace", str(tmp_path)))) == result
