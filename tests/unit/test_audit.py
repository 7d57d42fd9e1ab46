"""The audit trail: who did what, on the disk before it is done, whoever else writes at that time."""

import contextlib
import json
import os
import stat
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import OutboxError
from kafka_partition_events.observe import audit
from kafka_partition_events.observe.audit import AuditTrail, in_force, shown_arguments
from kafka_partition_events.observe.service import Service
from kafka_partition_events.observe.settings import Election, Http, Kafka, Observer, Outbox, Settings
from kafka_partition_events.outbox import SqliteOutbox, Stream, Write
from kafka_partition_events.testing import ManualClock, ScriptedSource
from kafka_partition_events.testing.scripted import observe
from tests.config_kit import WHOLE, Writer
from tests.outbox_kit import ScriptedSink, entry

BY = ("--author", "noc")
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    path = tmp_path / "outbox.db"
    SqliteOutbox(path).close()
    return path


def trail_of(outbox: Path) -> list[dict[str, Any]]:
    text = outbox.with_name("outbox.db.audit.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines() if line]


def told(outbox: Path) -> list[tuple[str, str]]:
    return [(line["action"], line["outcome"]) for line in trail_of(outbox)]


class TestATrail:
    def test_tells_who_did_what_when_and_how_it_ended(
        self, outbox: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "argv", ["kpe", "silence", "add", "-X", "sasl.username=noc"])
        clock = ManualClock()
        trail = AuditTrail(outbox, clock=clock)
        with trail.act("silence.added", silence={"id": "1"}) as found:
            assert told(outbox) == [("silence.added", "begun")], "before it is done"
            clock.advance(2)
            found["more"] = 1
        begun, done = trail_of(outbox)
        assert begun["act"] == done["act"]
        assert (begun["silence"], done["more"], done["outcome"]) == ({"id": "1"}, 1, "done")
        assert begun["who"]["uid"] == os.getuid()
        assert begun["who"].keys() == {"uid", "user", "login_uid", "login_user"}
        assert begun["argv"] == ["kpe", "silence", "add", "-X", "sasl.username=***"]
        assert done["time"] == (clock.now()).isoformat()
        assert begun["time"] == (clock.now() - timedelta(seconds=2)).isoformat()

    def test_tells_of_what_failed(self, outbox: Path) -> None:
        with pytest.raises(ZeroDivisionError), AuditTrail(outbox, clock=ManualClock()).act("a"):
            1 / 0  # noqa: B018
        assert trail_of(outbox)[1]["error"] == "division by zero"
        assert told(outbox) == [("a", "begun"), ("a", "failed")]

    def test_is_its_owners_alone_and_follows_no_link(self, outbox: Path, tmp_path: Path) -> None:
        trail = AuditTrail(outbox, clock=ManualClock())
        with trail.act("a"):
            pass
        assert stat.S_IMODE(trail.path.stat().st_mode) == 0o600
        trail.path.unlink()
        trail.path.symlink_to(tmp_path / "other")
        with pytest.raises(OutboxError, match="can't be written down"), trail.act("a"):
            pytest.fail("it was done")
        assert not (tmp_path / "other").exists()

    def test_of_root_belongs_to_whom_the_outbox_does(
        self, outbox: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given: list[tuple[int, int]] = []
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "fchown", lambda _file, uid, gid: given.append((uid, gid)))
        AuditTrail(outbox, clock=ManualClock()).note("a")
        assert given == [(outbox.stat().st_uid, outbox.stat().st_gid)]

    def test_what_can_not_be_written_down_is_not_done_but_the_service_goes_on(self, tmp_path: Path) -> None:
        trail = AuditTrail(tmp_path / "none" / "outbox.db", clock=ManualClock())
        with pytest.raises(OutboxError, match="No such file"), trail.act("a"):
            pytest.fail("it was done")
        with capture_logs() as logs:
            trail.note("observer.elected", observer="a")
        assert [(line["event"], line["log_level"]) for line in logs] == [
            ("observer.elected", "info"),
            ("audit_not_written", "error"),
        ]

    def test_goes_on_in_a_new_line_after_a_torn_one(self, outbox: Path) -> None:
        trail = AuditTrail(outbox, clock=ManualClock())
        trail.path.write_text('{"action": "to')
        trail.note("a")
        torn, whole = trail.path.read_text().splitlines()
        assert torn == '{"action": "to'
        assert json.loads(whole)["action"] == "a"

    def test_has_a_line_for_each_even_if_several_write(self, outbox: Path) -> None:
        def write(name: str) -> None:
            for _ in range(20):
                AuditTrail(outbox, clock=ManualClock()).note(name)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(line["action"] for line in trail_of(outbox)) == sorted("abcd" * 20)

    def test_names_nobody_whom_the_system_does_not_know(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        assert audit._who()["user"] is None


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (["kpe", "-X", "a=b=c", "x=y"], ["kpe", "-X", "a=***", "x=y"]),
        (["-Xa=b", "--control-option", "a=b"], ["-Xa=***", "--control-option", "a=***"]),
        (["--control-option=a=b", "-X"], ["--control-option=a=***", "-X"]),
        (["-X", "s3cret", "a=b"], ["-X", "***", "a=b"]),
        (["x" * 1000], ["x" * 500]),
    ],
)
def test_a_command_line_is_told_without_values_of_options(typed: list[str], shown: list[str]) -> None:
    assert shown_arguments(typed) == shown


def test_a_configuration_is_told_by_its_digest_and_what_is_set(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    secret = {"KPE_KAFKA__PROPERTIES__SASL_PASSWORD": "hunter2"}
    facts = in_force(writer.load(WHOLE, secret))
    text = json.dumps(facts)
    assert not [word for word in ("hunter2", "s3cret", "whsec") if word in text]
    assert {
        "key": "kafka.properties.sasl.password",
        "value": "***",
        "origin": "environment KPE_KAFKA__PROPERTIES__SASL_PASSWORD",
    } in facts["set"]
    assert not [each for each in facts["set"] if each["origin"] == "default"]
    assert facts["digest"] == in_force(writer.load(WHOLE, secret))["digest"]
    assert facts["digest"] != in_force(writer.load(WHOLE))["digest"]


class TestCommands:
    @pytest.fixture
    def kpe(self, outbox: Path) -> Callable[..., int]:
        return lambda *words: run([*words, "--outbox", str(outbox)], Services(clock=ManualClock()))

    def test_silences(self, outbox: Path, kpe: Callable[..., int], capsys: Captured) -> None:
        assert (
            kpe("silence", "add", "--broker", "2", "--for", "2h", "--reason", "disks", "--author", "x") == 0
        )
        id_ = capsys.readouterr().out.strip()
        assert kpe("silence", "rm", id_) == 0
        assert [action for action, outcome in told(outbox) if outcome == "done"] == [
            "silence.added",
            "silence.removed",
        ]
        added = trail_of(outbox)[0]["silence"]
        assert (added["id"], added["author"], added["reason"], added["broker"]) == (id_, "x", "disks", 2)

    def test_nothing_is_told_of_what_is_only_tried(self, outbox: Path, kpe: Callable[..., int]) -> None:
        assert kpe("silence", "add", "--broker", "2", "--for", "2h", "--reason", "r", *BY, "--dry-run") == 0
        assert kpe("silence", "rm", "none") == 2
        assert not outbox.with_name("outbox.db.audit.jsonl").exists()

    def test_no_silence_without_a_trail(
        self, outbox: Path, kpe: Callable[..., int], capsys: Captured
    ) -> None:
        outbox.with_name("outbox.db.audit.jsonl").mkdir()
        assert kpe("silence", "add", "--broker", "2", "--for", "2h", "--reason", "disks", *BY) == 2
        assert "what is done can't be written down: Is a directory" in capsys.readouterr().err
        with contextlib.closing(SqliteOutbox(outbox)) as opened:
            assert not opened.values("silence/")

    def test_putting_an_outbox_aside(self, outbox: Path, kpe: Callable[..., int]) -> None:
        outbox.write_bytes(b"no outbox" * 1000)
        assert kpe("outbox", "set-aside") == 0
        assert trail_of(outbox)[1]["renamed_to"].startswith(f"{outbox}.corrupt-")

    def test_replays(
        self, outbox: Path, kpe: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = ScriptedSink(stream=Stream.EVENTS)
        monkeypatch.setattr("kafka_partition_events.cli.observe.events.make_sink", lambda *_: sink)
        config = tmp_path / "kpe.toml"
        config.write_text('[[sinks]]\nname = "journal"\ntype = "kafka"\n')
        with contextlib.closing(SqliteOutbox(outbox)) as opened:
            opened.write(Write(entries=[entry("a")]))
        assert kpe("events", "replay", "--sink", "journal", "--since", "9000d", "--config", str(config)) == 0
        begun, done = trail_of(outbox)
        assert (begun["action"], begun["stream"], begun["since"]) == ("events.replayed", "events", "9000d")
        assert done["refused"] == 0


class TestTheService:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        return Settings(
            kafka=Kafka(bootstrap_servers="x:1"),
            observer=Observer(name="noc-1"),
            outbox=Outbox(path=str(tmp_path / "outbox.db")),
            http=Http(listen=("127.0.0.1", 0)),
        )

    def test_tells_when_it_began_and_ended(self, settings: Settings) -> None:
        outbox = Path(settings.outbox.path)
        service = Service(settings, lambda _kafka: ScriptedSource(observe({"orders": [1]})))
        with service:
            assert told(outbox) == [("service.started", "done")]
        service.close()
        assert told(outbox) == [("service.started", "done"), ("service.stopped", "done")]
        assert trail_of(outbox)[0]["observer"] == "noc-1"

    def test_tells_when_it_is_elected_and_deposed(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        group = SimpleNamespace(leader=False, alive=True, start=lambda: None, close=lambda: None)

        def election(_kafka: object, **callbacks: Any) -> SimpleNamespace:
            vars(group).update(callbacks)
            return group

        monkeypatch.setattr("kafka_partition_events.observe.election.Election", election)
        outbox = Path(settings.outbox.path)
        settings = evolve(settings, election=Election(enabled=True, group="g"))
        with contextlib.closing(Service(settings, lambda _kafka: ScriptedSource(observe({})))):
            group.on_elected({})
            group.on_deposed()
        assert told(outbox) == [("observer.elected", "done"), ("observer.deposed", "done")]
        assert (trail_of(outbox)[0]["observer"], trail_of(outbox)[0]["group"]) == ("noc-1", "g")
