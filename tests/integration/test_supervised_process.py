"""No process that the kit starts outlives its owner, whichever way the owner ends. `sleep` plays Kafka."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.processes import SupervisedProcess, tail
from kafka_partition_events.testing.supervisor import PARENT_CHECK_S
from tests.waiting_kit import waiting

LIMIT_S = 60.0

OWNER = """
import os, signal, sys, time
from pathlib import Path
from kafka_partition_events.testing.processes import SupervisedProcess

process = SupervisedProcess(["sleep", "600"], log=Path(sys.argv[1]))
process.send_signal(signal.SIGSTOP)
fork = 0
if sys.argv[2] == "fork":  # it inherits our end of the pipe, as a multiprocessing worker would
    fork = os.fork()
    if fork == 0:
        time.sleep(600)
print(process.pid, process._supervisor.pid, fork, flush=True)
time.sleep(600)
"""


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that nobody has collected yet has."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    return not shown.stdout.strip() or shown.stdout.startswith("Z")


def await_gone(pid: int) -> None:
    waiting(LIMIT_S, 0.05)(lambda: is_gone(pid), f"process {pid} has ended")


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[SupervisedProcess]:
    process = SupervisedProcess(["sleep", "600"], log=tmp_path / "log")
    yield process
    process.kill()


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_a_frozen_command_ends_with_its_killed_owner(tmp_path: Path, how: str) -> None:
    fork = 0
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, tmp_path / "log", how], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        try:
            command, supervisor, fork = map(int, owner.stdout.readline().split())
            assert not is_gone(command)
            owner.kill()
            await_gone(command)
            await_gone(supervisor)
        finally:
            owner.kill()
            if fork:
                os.kill(fork, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a process to its parent")
def test_the_command_ends_with_its_killed_supervisor(sleeper: SupervisedProcess) -> None:
    os.kill(sleeper._supervisor.pid, signal.SIGKILL)
    await_gone(sleeper.pid)


def test_the_command_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        process = pool.submit(SupervisedProcess, ["sleep", "600"], log=tmp_path / "log").result(LIMIT_S)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5 * PARENT_CHECK_S)
    finally:
        process.kill()


def test_exit_code_output_and_signals(sleeper: SupervisedProcess, tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    process = SupervisedProcess(["sh", "-c", "echo hello; exit 3"], log=log)
    assert process.wait(LIMIT_S) == 3
    assert not process.alive
    assert tail(log) == "hello"
    process.send_signal(signal.SIGTERM)  # too late, and harmless
    process.kill()

    assert sleeper.alive
    sleeper.send_signal(signal.SIGTERM)
    assert sleeper.wait(LIMIT_S) == 128 + signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it without another process")
def test_a_command_is_suspended_when_it_was_told_to_be(sleeper: SupervisedProcess) -> None:
    """Who measures from a freeze on, or expects no answer any more, can rely on it."""
    for _ in range(20):
        for number, state in ((signal.SIGSTOP, "T"), (signal.SIGSTOP, "T"), (signal.SIGCONT, None)):
            sleeper.send_signal(number)
            stat = Path(f"/proc/{sleeper.pid}/stat").read_text()
            assert state in {None, stat.rpartition(")")[2].split()[0]}
    sleeper.kill()
    sleeper.send_signal(signal.SIGSTOP)  # too late, and harmless


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(KitError, match=r"could not start /no/such/java(.|\n)*No such file"):
        SupervisedProcess(["/no/such/java"], log=tmp_path / "log")


def test_a_fork_of_the_owner_cannot_kill(sleeper: SupervisedProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        sleeper.kill()
    assert sleeper.alive
    sleeper.kill()
    assert not sleeper.alive
