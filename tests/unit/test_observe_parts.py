"""The parts of the service: what is fed, and whether all is well."""

import contextlib
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.errors import ConfigurationError, MetadataFetchError, OutboxError
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.observe.config import load_config
from kafka_partition_events.observe.probes import why_not_live, why_not_ready
from kafka_partition_events.observe.service import Service
from kafka_partition_events.observe.settings import Kafka, KafkaSinkSettings, WebhookSinkSettings
from kafka_partition_events.observe.sinks import QueuedSettings, SinkRunner, make_sink
from kafka_partition_events.observe.sources import NarrowedSource
from kafka_partition_events.outbox.sqlite_file import held_alone
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.outbox_kit import ScriptedSink, append, ids, scratch_journal

KAFKA = Kafka(bootstrap_servers="x:1")
HOOK = WebhookSinkSettings(name="w", url="https://x.example/")
SETTINGS = (KafkaSinkSettings(name="journal"), WebhookSinkSettings(name="hook", url="https://p.example/"))


class World:
    """An outbox, two sinks that can be looked into, and a runner."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.outbox = scratch_journal(clock=self.clock)
        self.made: dict[str, ScriptedSink] = {}
        self.runner = self.another_runner()

    def another_runner(self, *settings: QueuedSettings) -> SinkRunner:
        return SinkRunner(self.outbox, settings or SETTINGS, KAFKA, clock=self.clock, make=self._make)

    def _make(self, settings: QueuedSettings, _kafka: Kafka) -> ScriptedSink:
        sink = ScriptedSink()
        sink.name = settings.name
        self.made[settings.name] = sink
        return sink

    def waiting(self, name: str) -> list[str]:
        return ids(self.outbox.read(name, 100))


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.runner.stop()
    world.outbox.close()


# -- the runner --------------------------------------------------------------------------------------------


def test_nothing_is_delivered_before_the_start(world: World) -> None:
    append(world.outbox, "1", "2")
    assert world.waiting("journal") == ["1", "2"]
    world.runner.start()
    assert world.made["journal"].next_call() == ["1", "2"]
    assert world.made["hook"].next_call() == ["1", "2"]


def test_a_new_sink_begins_with_what_comes_and_a_known_one_goes_on_where_it_was(world: World) -> None:
    append(world.outbox, "old")
    world.outbox.unsubscribe("hook")
    world.another_runner()
    assert (world.waiting("journal"), world.waiting("hook")) == (["old"], [])
    append(world.outbox, "new")
    assert world.waiting("hook") == ["new"]


def test_nothing_is_kept_for_what_is_no_sink_any_more(world: World) -> None:
    world.runner.stop()
    world.runner = world.another_runner(SETTINGS[0])
    assert world.outbox.readers() == ["hook", "journal"], "the service may not start: a name may be mistyped"
    world.runner.start()
    assert world.outbox.readers() == ["journal"]


# -- sinks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            KafkaSinkSettings(name="k", properties={"nonsense": "hunter2"}),
            'sinks.k: librdkafka refuses a property: No such configuration property: "nonsense"',
        ),
        (
            KafkaSinkSettings(name="k", properties={"security.protocol": "hunter2"}),
            "sinks.k: librdkafka refuses a property: Invalid value ***",
        ),
        (evolve(HOOK, template="{{"), "sinks.w: template, line 1"),
        (evolve(HOOK, ca_file="nowhere.pem"), "sinks.w: nowhere.pem: [Errno 2] No such file"),
        (evolve(HOOK, proxy="ftp://kpe:hunter2@p.example"), "sinks.w: headers or proxy are of no use"),
        (evolve(HOOK, secrets=("hunter2",)), "sinks.w: secrets"),
    ],
)
def test_a_sink_that_can_not_be_made_is_named(
    settings: KafkaSinkSettings | WebhookSinkSettings, complaint: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make_sink(settings, KAFKA)
    assert str(refused.value).startswith(complaint)
    assert "hunter2" not in str(refused.value)


def test_a_topic_needs_brokers() -> None:
    with pytest.raises(ConfigurationError, match=r"sinks\.k: no brokers are named"):
        make_sink(KafkaSinkSettings(name="k"), Kafka())


# -- alive and ready ---------------------------------------------------------------------------------------

WELL = Health(running=True, last_attempt=100.0, last_success=100.0, next_delay=10.0)


FAILING = Health(running=True, last_attempt=1_000.0, last_success=None, failures=99, next_delay=10.0)


@pytest.mark.parametrize(
    ("health", "now", "why"),
    [
        (WELL, 155.0, None),
        (WELL, 156.0, "no poll of the cluster for 56 s"),
        (FAILING, 1_010.0, None),  # a cluster that does not answer is no reason for a restart
        (Health(running=False, last_attempt=100.0), 100.0, "the polling thread has ended"),
        (Health(running=True), 55.0, None),
        (Health(running=True), 56.0, "no poll of the cluster for 56 s"),
        (Health(running=False), 55.0, None),  # who asks may come before the polling thread has begun
        (Health(running=False), 56.0, "no poll of the cluster for 56 s"),
    ],
)
def test_it_lives_as_long_as_it_looks(health: Health, now: float, why: str | None) -> None:
    assert why_not_live(health, now=now, started=0.0, interval=10.0, timeout=5.0) == why


def test_a_thread_that_ended_is_a_reason_to_restart() -> None:
    ended = why_not_live(WELL, now=110.0, started=0.0, interval=10.0, timeout=5.0, ended=("labels", "pager"))
    assert ended == "a thread has ended: labels, pager"


@pytest.mark.parametrize(
    ("health", "more", "why"),
    [
        (WELL, {}, None),
        (WELL, {"now": 135.0}, None),
        (Health(running=True), {}, "no snapshot yet: the first answer is awaited"),
        (Health(running=True, last_error="refused"), {}, "no snapshot yet: refused"),
        (WELL, {"now": 136.0}, "no good answer for 36 s: the next one is awaited"),
        (WELL, {"journal_error": "disk full"}, "the outbox can't be written: disk full"),
        (WELL, {"journal_behind": 36.0}, "the journal is 36 s behind"),
    ],
)
def test_it_is_ready_with_a_fresh_snapshot_and_a_journal(
    health: Health, more: dict[str, Any], why: str | None
) -> None:
    given = {"now": 110.0, "journal_error": None, **more}
    assert why_not_ready(health, interval=10.0, timeout=5.0, **given) == why


# -- what is observed --------------------------------------------------------------------------------------


def test_until_the_first_answer_a_cluster_is_called_what_it_was_called_before_the_restart(
    tmp_path: Path,
) -> None:
    """By another name Prometheus would miss the observer of this one."""
    settings = load_config(
        None, {"KPE_OUTBOX__PATH": str(tmp_path / "outbox.db"), "KPE_HTTP__LISTEN": "127.0.0.1:0"}
    ).settings
    called = []
    for answer in (observe({"orders": [1]}, cluster_id="c-1"), MetadataFetchError("down")):
        source = ScriptedSource(answer)
        service = Service(settings, partial(lambda source, _kafka: source, source), clock=ManualClock())
        with contextlib.closing(service):
            before = service._called()
            service._poller.poll_once()
            called.append((before, service._called()))
    assert called == [("unknown", "c-1"), ("c-1", "c-1")]


# -- what is seen, and who may look ------------------------------------------------------------------------


def test_a_narrowed_source_shows_some_topics_only() -> None:
    source = ScriptedSource(
        observe({"orders": [1], "orders-2": [1], "other": [1]}, errors={"orders-3": "E", "x": "E"})
    )
    narrowed = NarrowedSource(source, "orders.*")
    seen = narrowed.fetch(None, timeout=1.0)
    assert (set(seen.topics), set(seen.errors)) == ({"orders", "orders-2"}, {"orders-3"})
    assert seen.requested is None
    narrowed.close()
    assert source.closed == 1


def test_one_service_for_one_outbox_by_whatever_name(tmp_path: Path) -> None:
    outbox, other = tmp_path / "outbox.db", tmp_path / "other.db"
    outbox.touch()
    other.symlink_to(outbox)
    with held_alone(str(outbox)), pytest.raises(ConfigurationError), held_alone(str(other)):
        pass


def test_a_lock_is_private_and_touches_no_other_file(tmp_path: Path) -> None:
    valuable = tmp_path / "valuable"
    valuable.write_text("kept")
    (tmp_path / "outbox.db.observer").symlink_to(valuable)
    with pytest.raises(OutboxError, match=r"outbox\.db\.observer"), held_alone(str(tmp_path / "outbox.db")):
        pass
    assert valuable.read_text() == "kept"
    with held_alone(str(tmp_path / "new.db")):
        assert stat.S_IMODE((tmp_path / "new.db.observer").stat().st_mode) == 0o600
