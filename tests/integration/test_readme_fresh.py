"""The README from top to bottom, in environments with the wheel and the extra that it names, and no more."""

import os
import re
import shlex
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_partition_events.testing import KafkaCluster
from tests.integration.programs import ended
from tests.waiting_kit import waiting

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMIT_S = 420
BLOCKS = re.findall(r"```(python|console)\n(.*?)```", README, re.DOTALL)
EXTRAS = ("demo", "demo", "observe", "observe", "cli,spark")
"""Of each block, in their order; the first one stands before the line that installs."""

pytestmark = [pytest.mark.kafka, pytest.mark.weekly]

Fresh = Callable[[str], Path]


def run(*command: str | Path, cwd: Path, allowed: tuple[int, ...] = (0,)) -> str:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # not the checkout's
    done = ended(*command, cwd=cwd, env=plain, limit_s=LIMIT_S)
    assert done.returncode in allowed, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Return what makes an environment with the wheel and an extra, and has its programs in a folder."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (wheel,) = folder.glob("*.whl")

    def make(extra: str) -> Path:
        programs = folder / extra.replace(",", "-") / "bin"
        if not programs.exists():
            venv.create(programs.parent, with_pip=True)
            run(programs / "python", "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]", cwd=folder)
        return programs

    return make


@pytest.fixture(scope="module")
def servers(own_kafka_cluster: Callable[..., KafkaCluster]) -> str:
    cluster = own_kafka_cluster(brokers=3)
    cluster.create_topic("orders", partitions=12, replication_factor=3)
    return cluster.bootstrap_servers


def leads(said: str) -> bool:
    """Ask a tracker that has said where its probes are: ``ok``, or ``ok, standing by``."""
    found = re.search(r"(http://\S+) has", said)
    if found is None:
        return False
    try:
        with urllib.request.urlopen(f"{found[1]}/readyz", timeout=5) as answer:  # noqa: S310 - our own
            return bool(answer.read().strip() == b"ok")
    except OSError:  # 503 while it begins, too
        return False


@pytest.fixture(scope="module")
def tracked(fresh: Fresh, servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have run what the README asks for before the commands that change topics."""
    kpe, folder = fresh("observe") / "kpe", tmp_path_factory.mktemp("tracker")
    run(kpe, "tracker", "init", "-b", servers, cwd=folder)
    said = folder / "said"
    with (
        said.open("w") as log,
        subprocess.Popen([str(kpe), "tracker", "-b", servers], stdout=log, stderr=log) as tracker,
    ):
        try:
            wait_until = waiting(LIMIT_S)
            wait_until(lambda: tracker.poll() is not None or leads(said.read_text()), "it leads or has ended")
            assert tracker.poll() is None, said.read_text()
            yield
        finally:
            tracker.terminate()


def test_the_producer_of_the_first_block_sends(fresh: Fresh, servers: str, tmp_path: Path) -> None:
    program = tmp_path / "first.py"
    program.write_text(BLOCKS[0][1].replace("localhost:9092", servers), encoding="utf-8")
    run(fresh("confluent") / "python", program, cwd=tmp_path)


COMMANDS = [
    (extra, line.partition("  #")[0].strip())
    for (language, text), extra in zip(BLOCKS, EXTRAS, strict=True)
    if language == "console"
    for line in text.splitlines()
    if line.startswith("kpe ")
]
SAID = {
    "kpe check": (0, 1, 2),
    "kpe doctor": (0, 1, 3),  # 1, 3: what it has found
    "kpe change": (0, 1),  # 1: no producer is there that would wait
    "kpe spark fleet": (0, 2),  # 2: no observer writes here, and it says so
    "kpe spark report": (0, 2),
}


@pytest.mark.parametrize(("extra", "command"), COMMANDS, ids=[command for _, command in COMMANDS])
def test_each_command_runs(
    extra: str, command: str, fresh: Fresh, servers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words = shlex.split(command.replace("localhost:9092", servers))
    words += ["--for", "2s"] * (words[1] == "watch") + ["--yes"] * ("--execute" in words)
    allowed = next((codes for name, codes in SAID.items() if command.startswith(name)), (0,))
    if words[1] == "change":
        request.getfixturevalue("tracked")
    said = run(fresh(extra) / words[0], *words[1:], cwd=tmp_path, allowed=allowed)
    assert said.strip(), "it says something"
