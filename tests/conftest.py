import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, Scheduling

from kafka_partition_events.testing.plugin import require_java

JOIN_S = 5.0
TESTS = Path(__file__).parent
SPARK = "tests/integration/spark/"
GUARDED = {"unit", "spec", "property", "concurrency", "conformance"}
_OF_PROMETHEUS = ".ci/install-prometheus does that"

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure() -> None:
    """Let programs that tests start be interrupted: whoever runs us in the background has SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def nobody_s_profiles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let commands find no profile of whoever runs the tests, and connect to no cluster of theirs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Take back what a command that ran in this process has configured: its stderr is closed by now."""
    yield
    structlog.reset_defaults()


class _ByFile(LoadFileScheduling):
    """Each file to a process, but those of Spark all to one: a second session would start cold again."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return SPARK if scope.startswith(SPARK) else scope


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Say which tests share a process, where there are several."""
    return _ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs Java where there is none; under CI, fail it."""
    if item.get_closest_marker("kafka") or item.get_closest_marker("spark"):
        require_java()


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of Prometheus' own tool."""
    return _installed("promtool", _OF_PROMETHEUS)


@pytest.fixture(scope="session")
def prometheus() -> str:
    """The path of Prometheus."""
    return _installed("prometheus", _OF_PROMETHEUS)


@pytest.fixture(scope="session")
def amtool() -> str:
    """The path of Alertmanager's own tool."""
    return _installed("amtool", _OF_PROMETHEUS)


@pytest.fixture(scope="session")
def alertmanager() -> str:
    """The path of Alertmanager."""
    return shutil.which("alertmanager") or _installed("prometheus-alertmanager", _OF_PROMETHEUS)


@pytest.fixture(scope="session")
def systemd_analyze() -> str:
    """The path of the program that checks units; systemd itself need not run."""
    return _installed("systemd-analyze", "Debian's package systemd has it")


@pytest.fixture(scope="session")
def openssl() -> str:
    """The path of the program that makes certificates."""
    return _installed("openssl", "Debian's package openssl has it")


def _installed(program: str, whence: str) -> str:
    """Return a program's path; skip the test where it is missing, and fail it under CI."""
    if path := shutil.which(program):
        return path
    missing = f"{program} is not installed; {whence}"
    if os.environ.get("CI"):
        pytest.fail(f"{missing}, and under CI no test may skip for that", pytrace=False)
    pytest.skip(missing)


def _our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("kpe-")}


@pytest.fixture(autouse=True)
def no_leaked_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a poller or a worker running."""
    before = _our_threads()
    yield
    if request.path.relative_to(TESTS).parts[0] in GUARDED:
        for thread in _our_threads() - before:
            thread.join(JOIN_S)  # closing need not wait for a thread that is on its way out
        leaked = sorted(thread.name for thread in _our_threads() - before)
        assert not leaked, f"left running: {leaked}"
