import contextlib
import gc
import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, Scheduling

from kafka_partition_events.testing.plugin import require_java
from tests.mock_cluster import MockCluster

JOIN_S = 5.0
FETCH_S = 35.0  # what a client that reaches no broker takes to give up, and more
TESTS = Path(__file__).parent
SPARK = "tests/integration/spark/"
SHARING = (SPARK, "tests/integration/observers/")
"""The files of each of these folders run in one process, for they share what is slow to start."""
GUARDED = {"unit", "spec", "property", "concurrency", "conformance"}

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("few", deadline=None, derandomize=True, database=None, max_examples=10)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_configure() -> None:
    """Let programs that tests start be interrupted: whoever runs us in the background has SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def no_configuration_of_mine() -> Iterator[None]:
    """Let commands connect to no cluster of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("KPE_CONFIG", raising=False)
        yield


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Take back what a command that ran in this process has configured: its stderr is closed by now."""
    yield
    structlog.reset_defaults()


class _ByFile(LoadFileScheduling):
    """Each file to a process, but those of a folder that shares a session or a cluster all to one."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return next((folder for folder in SHARING if scope.startswith(folder)), scope)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Say which tests share a process, where there are several."""
    return _ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with Spark's: they share a process and take longest, and all processes should end at one time."""
    items.sort(key=lambda item: not item.nodeid.startswith(SPARK))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let kafka-python forget to close sockets: the garbage collector meets them in any later test."""
    if item.get_closest_marker("kafka") is not None:
        item.add_marker(pytest.mark.filterwarnings("ignore:Exception ignored in. <(ssl.SSLS|s)ocket"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs Java where there is none; under CI, fail it."""
    if item.get_closest_marker("kafka") or item.get_closest_marker("spark"):
        require_java()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the last lines what was skipped, and why."""
    skipped = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    for reason, count in skipped.items():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}", yellow=True)


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    """A mock cluster of three brokers inside librdkafka, new for each test; needs no Java."""
    with MockCluster(brokers=3) as cluster:
        yield cluster


def _installed(*names: str) -> Any:
    """Return a fixture: the path of a program. Where it is missing a test skips, and fails under CI."""

    @pytest.fixture(scope="session")
    def program() -> str:
        if found := [path for name in names if (path := shutil.which(name))]:
            return found[0]
        missing = f"{names[-1]} is not installed; .ci/install-programs does that"
        if os.environ.get("CI"):
            pytest.fail(f"{missing}, and under CI no test may skip for that", pytrace=False)
        pytest.skip(missing)

    return program


alertmanager = _installed("alertmanager", "prometheus-alertmanager")
amtool = _installed("amtool")
openssl = _installed("openssl")
prometheus = _installed("prometheus")
promtool = _installed("promtool")
systemd_analyze = _installed("systemd-analyze")  # systemd itself need not run


def _our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(("kpe-", "kafka-python"))}


@contextlib.contextmanager
def _leaving_no_threads(join_s: float) -> Iterator[None]:
    """Fail where a poller, a worker or a client's thread is left running."""
    before = _our_threads()
    yield
    if _our_threads() - before:
        gc.collect()  # some end with what they serve
    for thread in _our_threads() - before:
        thread.join(join_s)  # closing need not wait for a thread that is on its way out
    leaked = sorted(thread.name for thread in _our_threads() - before)
    assert not leaked, f"left running: {leaked}"


@pytest.fixture(autouse=True)
def no_leaked_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have each test of the folders in `GUARDED` leave nothing running."""
    is_guarded = request.path.relative_to(TESTS).parts[0] in GUARDED
    with _leaving_no_threads(JOIN_S) if is_guarded else contextlib.nullcontext():
        yield


@pytest.fixture(scope="module", autouse=True)
def no_threads_that_outlive_a_module() -> Iterator[None]:
    """Have each file leave nothing running: a thread that draws random numbers fails another file's tests."""
    with _leaving_no_threads(FETCH_S):
        yield
