"""Every example of the README runs as it stands on a real cluster; so do the commands of docs/cli.md.

Python in other pages: tests/docs/test_code_blocks.py and test_docs_on_kafka.py. Commands in them:
tests/docs/test_commands.py.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from kafka_partition_events.cli.app import run as run_kpe
from tests.integration.programs import ended

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(page: str) -> list[str]:
    lines = (
        line.partition("#")[0].strip() for block in blocks(page, "console") for line in block.splitlines()
    )
    return [line for line in lines if line.startswith("kpe ")]


README = commands("README.md")
KPE = list(dict.fromkeys([*README, *commands("docs/cli.md")]))
LIMIT_S = 240
ELSEWHERE = {"demo", "spark", "top", "tracker", "change", "groups", "events"}
"""What takes more than a cluster, and is run elsewhere: test_fleet_pipeline, test_spark_whatif_command,
test_change_story, test_cli_events, test_cli_top, test_demo. Here, whether there are such options."""

pytestmark = pytest.mark.kafka


def run(command: list[str], cwd: Path) -> str:
    done = ended(*command, cwd=cwd, limit_s=LIMIT_S)
    allowed = {0}
    if "diff" in command:
        allowed = {0, 1}  # 1: the snapshots differ
    if "doctor" in command:
        # 3: the examples write one key, which tells nothing; 1: some topics here have one partition
        allowed = {0, 1, 3} if "replicas" in command else {0, 3}
    if "control" in command:
        allowed = {0, 1, 2}  # 2: there are no control topics here, unless of other tests
    assert done.returncode in allowed, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("example", blocks("README.md", "python"), ids=lambda example: example.split("\n")[0])
def test_python_example(example: str, orders: str, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(example.replace("localhost:9092", orders), encoding="utf-8")
    run([sys.executable, str(program)], tmp_path)


def test_pytest_example(tmp_path: Path) -> None:
    (example,) = (each for each in blocks("docs/testing.md", "python") if "def test_" in each)
    (tmp_path / "test_example.py").write_text(example, encoding="utf-8")
    assert "1 passed" in run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."], tmp_path)


def test_kpe_examples_in_their_order(orders: str, tmp_path: Path) -> None:
    assert {command.split()[1] for command in KPE} - ELSEWHERE == {
        "watch", "snapshot", "diff", "doctor", "check", "assets", "config",
    }  # fmt: skip
    for command in KPE:
        if command.split()[1] in ELSEWHERE:
            continue
        words = shlex.split(command.replace("localhost:9092", orders))
        if words[1] == "watch":
            words += ["--for", "2s"]
        if words[1] == "diff":
            (tmp_path / "after.json").write_text(run([*kpe(), "snapshot", "-b", orders], tmp_path))
        target = words.pop() if ">" in words else None
        told = run([*kpe(), *(word for word in words[1:] if word != ">")], tmp_path)
        if target is not None:
            (tmp_path / target).write_text(told)


WITH_OPTIONS = [command for command in README if command.split()[1] in ELSEWHERE and " -" in command]


@pytest.mark.parametrize("command", WITH_OPTIONS)
def test_other_examples_have_options_that_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command, comments=True)[1:]
    begin = next(n for n, word in enumerate(words) if word.startswith("-"))
    assert run_kpe([*words[:begin], "--help"]) == 0
    told = capsys.readouterr().out
    options = [word for word in words if word.startswith("-")]
    assert options
    for option in options:
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", told), option


def kpe() -> list[str]:
    return [str(Path(sys.executable).with_name("kpe"))]
