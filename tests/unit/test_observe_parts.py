"""The parts of the service: who is fed, how far each sink has come, and whether all is well."""

import stat
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from attrs import evolve

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.metadata.state import Health
from kafka_partition_events.observe import sink_runner
from kafka_partition_events.observe.narrowed import NarrowedSource
from kafka_partition_events.observe.outbox_lock import locked
from kafka_partition_events.observe.probes import why_not_live, why_not_ready
from kafka_partition_events.observe.progress import LeadersClock, Report, decode_report, encode_report
from kafka_partition_events.observe.setting_kinds import settings_of
from kafka_partition_events.observe.settings import Kafka
from kafka_partition_events.observe.sink_runner import SinkRunner
from kafka_partition_events.observe.sink_settings import (
    KafkaSinkSettings,
    SinkSettings,
    SmtpSinkSettings,
    WebhookSinkSettings,
)
from kafka_partition_events.observe.sinks import make_sink
from kafka_partition_events.outbox import Deliverer, DeliveryStats, RetryPolicy, Stream, Write
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import observe
from kafka_partition_events_listeners.kafka_sink import KafkaSink
from kafka_partition_events_listeners.mail.sink import SmtpSink
from kafka_partition_events_listeners.redaction import REDACTIONS
from kafka_partition_events_listeners.webhook.egress import Egress
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.outbox_kit import NOW, ScriptedSink, append, entry, ids, scratch_journal

KAFKA = Kafka(bootstrap_servers="x:1")
SETTINGS = (KafkaSinkSettings(name="journal"), WebhookSinkSettings(name="pager", url="https://p.example/"))


class World:
    """An outbox, two sinks that can be looked into, and a runner."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.outbox = scratch_journal(clock=self.clock)
        self.made: dict[str, list[ScriptedSink]] = {"journal": [], "pager": []}
        self.holds_to: dict[Stream, datetime | None] = {}  # if it is not what it was just now
        self.runner = self.another_runner()

    def another_runner(self) -> SinkRunner:
        return SinkRunner(
            self.outbox,
            SETTINGS,
            KAFKA,
            margin=15.0,
            clock=self.clock,
            holds_to=lambda stream: self.holds_to.get(stream, self.clock.now()),
            make=self._make,
        )

    def _make(self, settings: SinkSettings, _kafka: Kafka) -> ScriptedSink:
        sink = ScriptedSink(stream=Stream(settings.stream))
        sink.name = settings.name
        self.made[settings.name].append(sink)
        return sink

    def append(self, *seconds: float) -> None:
        """Append an event for each moment, in seconds after the beginning."""
        append(
            self.outbox,
            *(entry(f"at-{second:g}", at=NOW + timedelta(seconds=second)) for second in seconds),
        )

    def waiting(self, name: str) -> list[str]:
        return ids(self.outbox.read(name, 100))


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.runner.stop()
    world.outbox.close()


# -- the runner --------------------------------------------------------------------------------------------


def test_nothing_is_delivered_before_it_is_this_observers_turn(world: World) -> None:
    world.append(1, 2)
    assert world.waiting("journal") == ["at-1", "at-2"]
    world.runner.start()
    assert world.made["journal"][-1].next_call() == ["at-1", "at-2"]


def test_a_new_sink_begins_with_what_comes_and_a_known_one_goes_on_where_it_was(world: World) -> None:
    incident = evolve(entry("old"), stream=Stream.INCIDENTS)
    append(world.outbox, entry("event"), incident)
    world.outbox.unsubscribe("pager")
    world.another_runner()
    assert (world.waiting("journal"), world.waiting("pager")) == (["event"], [])
    append(world.outbox, evolve(incident, id="new"))
    assert world.waiting("pager") == ["new"]


def test_it_can_be_its_turn_again_and_the_sinks_are_new_then(world: World) -> None:
    world.runner.start()
    world.runner.stop()
    world.append(1)
    assert world.made["journal"][-1].closed == 1
    world.runner.start()
    assert len(world.made["journal"]) == 3  # one to see whether it can be made
    assert world.made["journal"][-1].next_call() == ["at-1"]


def test_a_sink_is_as_patient_as_its_settings_say(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    policies: list[Any] = []

    class Noted(Deliverer):
        def __init__(self, *args: Any, retry: RetryPolicy, **options: Any) -> None:
            policies.append(retry)
            super().__init__(*args, retry=retry, **options)

    monkeypatch.setattr(sink_runner, "Deliverer", Noted)
    journal, pager = SETTINGS
    impatient = {"journal": evolve(journal, max_delay=0.5, max_age=60.0), "pager": pager}
    monkeypatch.setattr(world.runner, "_sinks", impatient)
    world.runner.start()
    assert [(policy.max_delay, policy.max_age) for policy in policies] == [(0.5, 60.0), (60.0, 604_800.0)]
    assert policies[0].first_delay == 0.5


def test_progress_is_the_moment_of_what_waits_and_else_now(world: World) -> None:
    world.append(1, 2)
    world.clock.advance(60)
    assert world.runner.progress() == {
        "journal": NOW + timedelta(seconds=1),
        "pager": NOW + timedelta(seconds=60),
    }


def test_what_the_outbox_does_not_hold_is_not_claimed(world: World) -> None:
    """Nothing waits for the sinks of an observer that can't write: that is no sign that all is delivered."""
    world.append(10)
    world.clock.advance(60)
    world.holds_to = {Stream.EVENTS: NOW + timedelta(seconds=5), Stream.INCIDENTS: None}
    assert world.runner.progress() == {"journal": NOW + timedelta(seconds=5)}
    world.holds_to = {Stream.EVENTS: NOW + timedelta(seconds=20)}
    assert world.runner.progress()["journal"] == NOW + timedelta(seconds=10)


def test_what_another_observer_has_delivered_is_left_out_but_for_a_margin(world: World) -> None:
    world.append(1, 10, 50, 90)
    world.clock.advance(100)
    world.runner.skip_delivered({"journal": NOW + timedelta(seconds=65)})
    assert world.waiting("journal") == ["at-50", "at-90"]


def test_what_came_late_is_not_left_out(world: World) -> None:
    world.append(1, 90, 2)
    world.clock.advance(100)
    world.runner.skip_delivered({"journal": NOW + timedelta(seconds=65)})
    assert world.waiting("journal") == ["at-90", "at-2"]


def test_what_a_clock_dated_that_was_set_back_is_as_late_as_what_follows_it(world: World) -> None:
    world.append(1, 90_000, 10, 90_001)
    world.clock.advance(100)
    world.runner.skip_delivered({"journal": NOW + timedelta(seconds=65)})
    assert world.waiting("journal") == ["at-90001"]  # nothing follows: it may not have been delivered
    assert "journal" not in world.runner.progress()


def test_progress_that_is_behind_or_of_others_changes_nothing(world: World) -> None:
    world.append(1, 2)
    world.runner.skip_delivered({"journal": NOW, "somebody-elses": NOW + timedelta(days=1)})
    assert world.waiting("journal") == ["at-1", "at-2"]


def test_it_tells_what_waits_and_what_was_delivered(world: World) -> None:
    world.append(1)
    waiting, delivered = world.runner.stats()["journal"]
    assert (waiting.waiting, delivered) == (1, DeliveryStats())
    world.runner.start()
    for number in (1, 2):  # when the second is on its way, the first is counted
        assert world.made["journal"][-1].next_call() == [f"at-{number}"]
        world.append(number + 1)
    assert world.runner.stats()["journal"][1].delivered >= 1


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
        (WebhookSinkSettings(name="w", url="http://127.0.0.1/"), "sinks.w: url names 127.0.0.1"),
        (WebhookSinkSettings(name="w", url="https://x.example/", format="template"), "sinks.w: format"),
        (
            WebhookSinkSettings(name="w", url="https://x.example/", ca_file="nowhere.pem"),
            "sinks.w: ca_file: nowhere.pem: No such file",
        ),
        (
            WebhookSinkSettings(name="w", url="https://x.example/", proxy="https://kpe:hunter2@p.example"),
            "sinks.w: proxy must be http://",
        ),
        (WebhookSinkSettings(name="w", url="https://x.example/", secrets=("hunter2",)), "sinks.w: secrets"),
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


# -- progress on the wire ----------------------------------------------------------------------------------


def test_a_report_survives_the_wire() -> None:
    report = Report(at=NOW, progress={"journal": NOW, "pager": NOW + timedelta(microseconds=1)})
    assert decode_report(encode_report(report)) == report


def test_a_report_fits_into_an_offsets_metadata() -> None:
    text = encode_report(Report(at=NOW, progress={f"sink-{number:03}": NOW for number in range(200)}))
    assert 3_800 < len(text) <= 4_096
    report = decode_report(text)
    assert report is not None
    assert report.progress["sink-000"] == NOW


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "x", "[]", "{}", '{"at": 1, "sinks": {}}', '{"at": "yesterday", "sinks": {}}'),
        '{"at": "2026-11-20T10:00:00", "sinks": {}}',
        '{"at": "2026-11-20T10:00:00Z", "sinks": {"pager": "0001-01-01T00:00:00Z"}}',
        '{"at": "9999-12-31T23:59:59Z", "sinks": {}}',
    ],
)
def test_what_is_no_report_is_none(text: str | None) -> None:
    assert decode_report(text) is None


# -- a leader whose target is dead, and clocks that are set ------------------------------------------------


class Stepping(ManualClock):
    """A clock that is off by some seconds of another one's."""

    def __init__(self, true: ManualClock) -> None:
        super().__init__()
        self.true, self.off = true, 0.0

    def monotonic(self) -> float:
        return self.true.monotonic()

    def now(self) -> datetime:
        return self.true.now() + timedelta(seconds=self.off)


@pytest.mark.parametrize("delivered", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        ((0, 0), (0, 600), 10),
        ((0, 0), (0, 120), 10),
        ((0, -600), (0, 0), 10),
        ((0, 0), (-600, 0), 660),
        ((0, 0), (-100, 0), 120),
        ((600, 0), (0, 0), 660),
        ((60, 0), (0, 0), 70),
        ((0, 0), (600, 0), 700),
        ((0, 0), (0, -600), 700),
        ((0, 90_000), (0, 0), 700),
        ((600, 600), (0, 0), 700),
    ],
)
def test_a_clock_that_is_set_while_a_page_waits_loses_none(
    before: tuple[float, float], after: tuple[float, float], seconds: int, *, delivered: bool
) -> None:
    """The leader's page waits, or is delivered at last; the follower asks every five seconds."""
    true = ManualClock()
    clocks = Stepping(true), Stepping(true)
    leader, follower = worlds = [World(clock) for clock in clocks]
    known = LeadersClock()

    def pass_time(seconds: int) -> None:
        for _ in range(seconds // 5):
            true.advance(3)
            report = Report(at=clocks[0].now(), progress=leader.runner.progress())
            true.advance(2)
            now, monotonic = clocks[1].now(), true.monotonic()
            here = known.here(report, asked_at=monotonic, now=now, monotonic=monotonic)
            follower.runner.skip_delivered(here)

    def set_clocks(off: tuple[float, float]) -> None:
        clocks[0].off, clocks[1].off = off

    set_clocks(before)
    pass_time(60)
    for world in worlds:
        append(world.outbox, entry("page", at=world.clock.now()))
    pass_time(10)
    set_clocks(after)
    pass_time(seconds)
    assert follower.waiting("journal") == ["page"]
    if delivered:
        leader.outbox.write(Write(cursors={"journal": 1}))
        pass_time(200)
        assert follower.waiting("journal") == []
    for world in worlds:
        world.outbox.close()


# -- the leader's clock ------------------------------------------------------------------------------------


class Leader:
    """Reports every five seconds; its clock is `off` by some seconds, and somebody asks every five, too."""

    def __init__(self, off: float = 0.0) -> None:
        self.off, self.clock, self.ours = off, LeadersClock(), 0.0

    def heard(self, at: float, reported: float | None = None) -> float | None:
        """Return which moment a report of ``reported`` is for who asks at ``at``, in true seconds."""
        made = NOW + timedelta(seconds=(at if reported is None else reported) + self.off)
        report = Report(at=made, progress={"pager": made})
        now = NOW + timedelta(seconds=at + self.ours)
        here = self.clock.here(report, asked_at=at, now=now, monotonic=at).get("pager")
        return None if here is None else (here - NOW).total_seconds() - self.ours


@pytest.mark.parametrize("off", [0.0, 3600.0])
def test_the_moments_of_a_clock_that_is_ahead_are_put_back(off: float) -> None:
    leader = Leader()
    assert leader.heard(0) == 0
    leader.off = off
    assert [leader.heard(5), leader.heard(10), leader.heard(15, reported=10)] == [5, 10, 10]


def test_a_report_from_the_future_of_which_nobody_knows_the_age_tells_nothing() -> None:
    leader = Leader(3600.0)
    assert [leader.heard(1000, reported=10), leader.heard(1005, reported=10)] == [None, None]
    assert leader.heard(1010) == 1010
    assert leader.heard(3000, reported=1020) == 1020  # nobody could ask for half an hour


def test_an_old_report_is_old_and_not_from_a_clock_that_is_behind() -> None:
    leader = Leader()
    assert [leader.heard(1000, reported=10), leader.heard(1005, reported=10)] == [10, 10]
    assert leader.heard(1010, reported=980) == 980  # its commit was long under way


@pytest.mark.parametrize("who", ["off", "ours"])
def test_a_clock_that_is_behind_by_hours_is_known_by_a_report_that_comes_while_somebody_asks(
    who: str,
) -> None:
    leader = Leader()
    setattr(leader, who, {"off": -90_000.0, "ours": 90_000.0}[who])
    assert leader.heard(5) == 5 - 90_000  # it may be as old as that
    assert leader.heard(10) == 10 - 5 - 60


def test_a_clock_that_is_set_right_changes_nothing_of_what_the_leader_has_said() -> None:
    leader = Leader()
    leader.ours = 90_000.0
    leader.heard(5)
    leader.heard(10)
    leader.ours = 0.0
    assert leader.heard(12, reported=10) == 10 - 5 - 60


# -- alive and ready ---------------------------------------------------------------------------------------

WELL = Health(running=True, last_attempt=100.0, last_success=100.0, next_delay=10.0)


def live(health: Health, now: float) -> str | None:
    return why_not_live(health, now=now, started=0.0, interval=10.0, timeout=5.0)


def test_it_lives_as_long_as_it_looks() -> None:
    assert live(WELL, 155.0) is None
    assert live(WELL, 156.0) == "no look at the cluster for 56 s"


def test_a_cluster_that_does_not_answer_is_no_reason_for_a_restart() -> None:
    failing = Health(running=True, last_attempt=1_000.0, last_success=None, failures=99, next_delay=10.0)
    assert live(failing, 1_010.0) is None


def test_a_thread_that_has_ended_is() -> None:
    assert live(Health(running=False, last_attempt=100.0), 100.0) == "the polling thread has ended"


@pytest.mark.parametrize("running", [True, False])
def test_before_the_first_look_the_start_counts(running: bool) -> None:
    """Whoever asks may come before the polling thread has begun."""
    assert live(Health(running=running), 55.0) is None
    assert live(Health(running=running), 56.0) is not None


def test_a_thread_that_ended_is_a_reason_to_restart() -> None:
    ended = why_not_live(
        WELL, now=110.0, started=0.0, interval=10.0, timeout=5.0, ended=("incidents", "pager")
    )
    assert ended == "a thread has ended: incidents, pager"


def ready(
    health: Health, now: float = 110.0, journal_error: str | None = None, **behind: float
) -> str | None:
    return why_not_ready(health, now=now, interval=10.0, timeout=5.0, journal_error=journal_error, **behind)


def test_it_is_ready_with_a_fresh_snapshot_and_a_journal() -> None:
    assert ready(WELL) is None
    assert ready(WELL, now=135.0) is None


def test_it_is_not_ready() -> None:
    assert ready(Health(running=True)) == "no snapshot yet: the first answer is awaited"
    assert ready(Health(running=True, last_error="refused")) == "no snapshot yet: refused"
    assert ready(WELL, now=136.0) == "no good answer for 36 s: the next one is awaited"
    assert ready(WELL, journal_error="disk full") == "the outbox can't be written: disk full"
    assert ready(WELL, journal_behind=36.0) == "the journal is 36 s behind"
    assert ready(WELL, incidents_behind=16.0) == "incidents are 16 s behind"


# -- what is seen, and who may look ------------------------------------------------------------------------


def test_a_narrowed_source_shows_some_topics_only() -> None:
    source = ScriptedSource(
        observe({"orders": [1], "orders-2": [1], "other": [1]}, errors={"orders-3": "E", "x": "E"})
    )
    narrowed = NarrowedSource(source, "orders.*")
    seen = narrowed.fetch(None, started_at=0.0, timeout=1.0)
    assert (set(seen.topics), set(seen.errors)) == ({"orders", "orders-2"}, {"orders-3"})
    assert seen.requested is None
    narrowed.close()
    assert source.closed == 1


def test_one_service_for_one_outbox(tmp_path: object) -> None:
    path = f"{tmp_path}/outbox.db"
    with locked(path), pytest.raises(ConfigurationError, match="another kpe observe works on"), locked(path):
        pass
    with locked(path):
        pass


def test_one_service_for_one_outbox_by_whatever_name(tmp_path: Path) -> None:
    outbox, other = tmp_path / "outbox.db", tmp_path / "other.db"
    outbox.touch()
    other.symlink_to(outbox)
    with locked(str(outbox)), pytest.raises(ConfigurationError), locked(str(other)):
        pass


def test_a_lock_is_private_and_touches_no_other_file(tmp_path: Path) -> None:
    valuable = tmp_path / "valuable"
    valuable.write_text("kept")
    (tmp_path / "outbox.db.observer").symlink_to(valuable)
    with pytest.raises(OutboxError, match=r"outbox\.db\.observer"), locked(str(tmp_path / "outbox.db")):
        pass
    assert valuable.read_text() == "kept"
    with locked(str(tmp_path / "new.db")):
        assert stat.S_IMODE((tmp_path / "new.db.observer").stat().st_mode) == 0o600


def test_a_webhook_goes_where_its_settings_say_and_leaves_out_what_they_say() -> None:
    settings = WebhookSinkSettings(
        name="w", url="https://x.example/", proxy="http://p.example:3128", redact=("hosts", "observers")
    )
    sink = make_sink(settings, KAFKA)
    assert isinstance(sink, WebhookSink)
    assert sink._transport._egress == Egress(proxy="http://p.example:3128")  # type: ignore[attr-defined]
    assert sink._left_out == {"host", "port", "error", "observer"}
    sink.close()


@pytest.mark.parametrize("type_", get_args(SinkSettings))
def test_all_that_can_be_left_out_can_be_asked_for(type_: type) -> None:
    assert settings_of(type_)["redact"].kind.read(list(REDACTIONS)) == REDACTIONS


def test_mails_and_records_leave_out_what_their_settings_say() -> None:
    what: Any = {"redact": ("hosts", "observers")}
    mail = make_sink(
        SmtpSinkSettings(name="m", host="h", sender="a@b.example", to=("c@b.example",), **what), KAFKA
    )
    records = make_sink(KafkaSinkSettings(name="k", **what), KAFKA)
    assert isinstance(mail, SmtpSink)
    assert isinstance(records, KafkaSink)
    assert mail._left_out == records._left_out == {"host", "port", "error", "observer"}
    records.close()
