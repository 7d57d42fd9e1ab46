"""docs/partitioners.md: every example that needs no broker prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "partitioners.md").read_text(encoding="utf-8")
TENANT = (ROOT / "examples" / "tenant_partitioner.py").read_text(encoding="utf-8")
SHOWN = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
PRINTED = [(code, text) for code, text in SHOWN if "class TenantPartitioner" not in code]
LONGEST_EXAMPLE = 15


def test_the_page_has_its_examples() -> None:
    assert len(PRINTED) == 4


@pytest.mark.parametrize(("code", "text"), PRINTED, ids=lambda part: part.split("\n")[-2])
def test_an_example_prints_what_the_page_says(
    code: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(code, "docs/partitioners.md", "exec"), {"__name__": "docs"})  # noqa: S102 - our own page
    assert capsys.readouterr().out == text


def test_the_tenant_partitioner_is_shown_as_it_is_and_prints_what_the_page_says() -> None:
    ((code, text),) = ((code, text) for code, text in SHOWN if "class TenantPartitioner" in code)
    assert code in TENANT
    partitioner = code[code.index("class TenantPartitioner") : code.index("def main")]
    assert len([line for line in partitioner.split("\n") if line.strip()]) < LONGEST_EXAMPLE
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "tenant_partitioner.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == text
