"""Whichever thread of the service ends, /livez says so: whoever watches it starts it anew."""

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import evolve

from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.observe.service import Service
from kafka_partition_events.observe.settings import (
    AlertmanagerSinkSettings,
    Control,
    Http,
    Kafka,
    Observer,
    Outbox,
    Settings,
    WebhookSinkSettings,
)
from kafka_partition_events.testing import ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.mock_cluster import MockCluster
from tests.waiting_kit import waiting

LIMIT_S = 30.0
wait_until = waiting(LIMIT_S, 0.02)
EXCEPTED = {"kpe-http", "kpe-poller"}
"""When the former ends nobody answers on /livez any more, which is as good; the latter has its own test."""


@pytest.fixture(autouse=True)
def ending_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report nothing of a thread that ends: pytest's report takes so long that a second `end` may hit it."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        kafka=Kafka(bootstrap_servers="x:1"),
        observer=Observer(name="noc-1", interval=0.1),
        outbox=Outbox(path=str(tmp_path / "outbox.db")),
        http=Http(listen=("127.0.0.1", 0)),
        sinks=(
            WebhookSinkSettings(name="pager", url="http://127.0.0.1:9/"),
            AlertmanagerSinkSettings(name="am", urls=("http://127.0.0.1:9/",)),
        ),
    )


@contextmanager
def running(settings: Settings) -> Iterator[Service]:
    seen = observe({"orders": {"id": "A", "partitions": [1]}})
    with Service(settings, lambda _config: ScriptedSource(seen)) as observer:
        wait_until(lambda: "kpe-sink-pager" in threads() and not observer.why_not_ready(), "it is ready")
        assert observer.why_not_live() is None
        yield observer


def threads() -> dict[str, threading.Thread]:
    return {each.name: each for each in threading.enumerate() if each.name.startswith("kpe-")}


def end(thread: threading.Thread) -> None:
    """Raise in a thread what only a bug can; and wake it if it sleeps."""
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    owner = getattr(getattr(thread, "_target", None), "__self__", None)
    if (condition := getattr(owner, "_condition", None)) is not None:
        with condition:
            condition.notify_all()


# It may end within `socket.create_connection`, which closes its socket on an OSError alone.
@pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")
def test_whichever_thread_ends_is_told_of(settings: Settings, mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("kpe.changes", 1)
    everything = evolve(
        settings, kafka=Kafka(bootstrap_servers=mock_cluster.bootstrap_servers), control=Control(enabled=True)
    )
    with running(everything) as observer:
        found = threads()
        assert found.keys() >= {
            "kpe-poller", "kpe-sink-pager", "kpe-alerts-am", "kpe-listener-JournalListener",
        }  # fmt: skip
        for name in sorted(found.keys() - EXCEPTED):
            called = name.removeprefix("kpe-").removeprefix("sink-").removeprefix("alerts-")
            deadline = time.monotonic() + LIMIT_S
            while called not in (observer.why_not_live() or ""):
                assert time.monotonic() < deadline, name
                end(found[name])  # once more, if it hit what a listener does, which is contained
                time.sleep(0.5)


def test_a_poller_that_ends_is_told_of(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(_poller: MetadataPoller) -> None:  # between two polls: `end` above may hit it where it has a lock
        raise SystemExit

    with running(settings) as observer:
        monkeypatch.setattr(MetadataPoller, "poll_once", end)
        wait_until(lambda: observer.why_not_live() == "the polling thread has ended", "it is told")
