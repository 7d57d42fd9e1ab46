"""The reader: what it writes is durable together with how far it has read, whatever fails in between."""

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attrs import evolve

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.incidents import (
    Rules,
    Standing,
    Suppressed,
)
from kafka_partition_events.incidents.decisions import Verb
from kafka_partition_events.incidents.standing import standing_in
from kafka_partition_events.outbox import Journal, Stream, Write
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox
from kafka_partition_events.testing import ManualClock
from tests.incident_kit import START, moment, suspected
from tests.watch_kit import SINK, Watch, data, names


@pytest.fixture
def outbox(tmp_path: Path, clock: ManualClock) -> Iterator[Journal]:
    made = SqliteOutbox(tmp_path / "outbox.db", clock=clock)
    made.subscribe(SINK, Stream.INCIDENTS)
    yield made
    made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(wall=START)


@pytest.fixture
def watch(outbox: Journal, clock: ManualClock) -> Watch:
    return Watch(outbox, clock)


class TestWhatIsWritten:
    def test_an_outage_is_opened_and_closed(self, watch: Watch) -> None:
        assert names(watch.read()) == []
        watch.world.down(2)
        watch.look()
        assert names(watch.after(29)) == []
        assert watch.reader.stats.standing == Standing(held=1)
        (opened,) = watch.after(2)
        assert (opened.name, opened.stream, opened.at) == ("incident.opened", Stream.INCIDENTS, moment(30))
        assert opened.recorded_at == moment(31)
        assert watch.reader.stats.standing == Standing(open=1)
        watch.clock.advance(100)
        watch.world.up(2)
        watch.look()
        (closed,) = watch.read()
        assert closed.name == "incident.closed"
        assert data(closed)["incident_id"] == data(opened)["incident_id"]
        assert watch.reader.stats.standing == Standing()

    def test_a_blip_is_counted_only(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        watch.clock.advance(10)
        watch.world.up(2)
        watch.look()
        assert names(watch.after(100)) == []
        assert watch.reader.stats.suppressed == {
            Suppressed.DEBOUNCED: 2,
            Suppressed.FLAPPING: 0,
            Suppressed.SILENCED: 0,
            Suppressed.RATE_LIMITED: 0,
        }

    def test_an_end_that_the_journal_tells_of_a_little_late_still_comes_in_time(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        watch.clock.advance(29.9)
        watch.world.up(2)
        back = watch.world.look(29.9)
        assert names(watch.after(1)) == [], "the hold-down was over 0.9 s ago"
        watch.journal(back)
        assert names(watch.after(100)) == []
        assert watch.reader.stats.suppressed[Suppressed.DEBOUNCED] == 2

    def test_a_structural_change_passes_as_it_is(self, watch: Watch) -> None:
        watch.read()
        watch.world.grow("orders", [[3]])
        (grown,) = watch.world.look(0)
        watch.journal([grown])
        (passed,) = watch.read()
        assert evolve(passed, seq=0) == evolve(grown, stream=Stream.INCIDENTS)

    @pytest.mark.parametrize("step", [3600.0, 86_400.0])
    def test_a_clock_that_is_set_back_delays_nobody(self, watch: Watch, step: float) -> None:
        watch.world.down(2)
        watch.look()
        assert watch.after(10) == []
        watch.clock.set_back(step)
        assert [entry.name for entry in watch.after(1)] == ["incident.opened"]
        watch.world.up(2)
        watch.look()
        assert [entry.name for entry in watch.after(40)] == ["incident.closed"]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_what_a_clock_that_was_ahead_has_told_keeps_nothing_from_being_told(
        self, watch: Watch, restarted: bool
    ) -> None:
        """Else the next update would be due a day from now, and what flaps be stable then."""
        watch.ahead = 86_400.0
        watch.clock.set_back(-86_400)
        for _ in range(3):
            watch.world.down(2)
            watch.look()
            watch.after(40)
            watch.world.up(2)
            watch.look()
            watch.after(40)
        assert watch.reader.stats.standing.flapping == 1
        watch.ahead = 0.0
        watch.clock.set_back(86_400)
        if restarted:
            watch.reader = watch.another_reader()
        watch.after(1)
        watch.world.down(2)
        watch.look()
        assert "incident.updated" in names(watch.after(Rules().update_interval + 60))
        watch.world.up(2)
        watch.look()
        assert names(watch.after(Rules().flap_window + 60)) == ["flapping.stopped", "incident.closed"]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_what_came_back_while_nobody_looked_is_not_told(self, watch: Watch, restarted: bool) -> None:
        """As after a freeze, or between two processes: time has passed before the first look."""
        watch.world.down(2)
        watch.look()
        watch.looked_to = moment(0)
        assert watch.after(1) == []
        if restarted:
            watch.reader, watch.looked_to = watch.another_reader(), datetime.min.replace(tzinfo=UTC)
        assert watch.after(600) == []
        watch.world.up(2)
        watch.journal(watch.world.look(601, previous_at=moment(0)))
        watch.looked_to = moment(601)
        assert watch.after(60) == []
        assert watch.reader.stats.suppressed[Suppressed.DEBOUNCED] > 0

    def test_what_is_still_down_at_the_next_look_is(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        watch.looked_to = moment(0)
        assert watch.after(600) == []
        assert watch.reader.stats.told_to == moment(0)
        watch.looked_to = moment(600)
        assert [entry.name for entry in watch.after(1)] == ["incident.opened"]

    def test_while_the_cluster_does_not_answer_time_alone_counts(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        watch.looked_to = None
        assert [entry.name for entry in watch.after(40)] == ["incident.opened"]

    def test_what_somebody_closes_is_told_to_be_closed_and_is_quiet_until_all_of_it_was_up(
        self, watch: Watch
    ) -> None:
        watch.world.down(2)
        watch.look()
        (opened,) = watch.after(40)
        id_ = json.loads(opened.body)["data"]["incident_id"]
        watch.decide("close", "it is scrapped")
        (closed,) = watch.after(1)
        data = json.loads(closed.body)["data"]
        assert (closed.name, data["closed_by"], data["reason"]) == (
            "incident.closed",
            "ada",
            "it is scrapped",
        )
        assert (data["incident_id"], data["ended"]) == (id_, None)
        (told,) = standing_in(watch.outbox, watch.clock.now())
        assert (told["incident_id"], told["open"]) == (id_, False)
        assert watch.reader.stats.standing == Standing()
        watch.reader = watch.another_reader()
        assert watch.after(10_000) == []
        watch.world.up(2)
        watch.look()
        assert watch.after(10_000) == []
        assert standing_in(watch.outbox, watch.clock.now()) == []
        watch.world.down(2)
        watch.look()
        (again,) = watch.after(40)
        assert again.name == "incident.opened"
        assert json.loads(again.body)["data"]["incident_id"] != id_

    def test_what_goes_down_again_after_it_flapped_and_was_closed_is_told(self, watch: Watch) -> None:
        for _ in range(2):
            watch.world.down(2)
            watch.look()
            watch.after(40)
            watch.world.up(2)
            watch.look()
            watch.after(5)
        watch.decide("close", "known")
        watch.after(60)
        watch.world.down(2)
        watch.look()
        assert "incident.opened" in [entry.name for entry in watch.after(40)]

    def test_who_looks_after_it_is_told_once_and_nobody_is_reminded(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        watch.after(40)
        watch.decide("ack", "a new disk is on its way")
        (acked,) = watch.after(1)
        data = json.loads(acked.body)["data"]
        assert (acked.name, data["acknowledged_by"], data["acknowledged_for"]) == (
            "incident.acknowledged",
            "ada",
            "a new disk is on its way",
        )
        watch.reader = watch.another_reader()
        assert watch.after(100_000) == []
        watch.decide("ack", "and another one")
        (again,) = watch.after(1)
        assert json.loads(again.body)["data"]["acknowledged_for"] == "and another one"
        watch.world.up(2)
        watch.look()
        assert names(watch.after(10)) == ["incident.closed"]

    @pytest.mark.parametrize("verb", ["ack", "close"])
    def test_a_decision_is_about_what_was_down_by_then(self, watch: Watch, verb: Verb) -> None:
        watch.decide(verb, "too early")
        watch.after(40)
        watch.world.down(2)
        watch.look()
        assert names(watch.after(40)) == ["incident.opened"]

    def test_a_broker_that_holds_nothing_is_nobodys_incident(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        assert names(watch.after(40)) == ["incident.opened"]
        watch.world.delete("single")
        watch.look()
        watch.unassigned.add(2)
        *_, closed = watch.after(2)
        data = json.loads(closed.body)["data"]
        assert (closed.name, data["reason"]) == ("incident.closed", "no partition is assigned to it")
        watch.world.down(3)
        watch.look()
        watch.unassigned.add(3)
        assert watch.after(1_000) == []
        assert watch.reader.stats.standing == Standing()

    def test_it_says_up_to_when_all_is_told(self, watch: Watch) -> None:
        assert watch.reader.stats.told_to is None
        watch.after(10)
        assert watch.reader.stats.told_to == moment(9)
        watch.world.create("wide", [[2]] * 2500)
        watch.look()
        watch.world.down(2)
        watch.look()
        watch.clock.advance(60)
        assert watch.reader.run_once()  # there is more
        assert watch.reader.stats.told_to == moment(9)

    def test_more_than_a_batch_is_read_before_time_counts(self, watch: Watch) -> None:
        watch.world.create("wide", [[2]] * 2500)
        watch.look()
        watch.world.down(2)
        watch.look()
        watch.clock.advance(10)
        watch.world.up(2)
        watch.look()
        # Nobody has read for a minute: hours later than the outage, but its end lies in the journal.
        assert names(watch.after(60)) == ["topic.created"]
        assert watch.reader.stats.suppressed[Suppressed.DEBOUNCED] == 2502


class TestRestarts:
    def test_the_next_reader_closes_what_the_last_one_opened(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        (opened,) = watch.after(31)
        watch.reader = watch.another_reader()
        assert watch.reader.stats.standing == Standing(open=1)
        watch.world.up(2)
        watch.look()
        (closed,) = watch.read()
        assert (closed.name, data(closed)["incident_id"]) == ("incident.closed", data(opened)["incident_id"])

    def test_the_next_reader_opens_what_the_last_one_held_down(self, watch: Watch) -> None:
        watch.world.down(2)
        watch.look()
        watch.read()
        watch.reader = watch.another_reader()
        assert names(watch.after(29)) == []
        (opened,) = watch.after(300)
        assert opened.at == moment(30)

    def test_the_next_reader_knows_nothing_of_the_last_process_s_producers(self, watch: Watch) -> None:
        watch.journal([watch.world.tell(suspected(2), 0)])
        assert names(watch.after(31)) == ["incident.opened"]
        watch.reader = watch.another_reader()
        assert names(watch.read()) == ["incident.closed"]
        watch.journal([watch.world.tell(suspected(2), watch.clock.monotonic())])
        watch.read()
        assert names(watch.after(31)) == ["incident.opened"]

    def test_a_state_that_cannot_be_read_is_begun_anew(self, watch: Watch) -> None:
        watch.outbox.write(Write(values={"incidents": b"nonsense"}))
        watch.reader = watch.another_reader()
        watch.world.down(2)
        watch.look()
        assert names(watch.after(31)) == ["incident.opened"]


class TestFailures:
    @pytest.fixture
    def fail(self, outbox: Journal, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
        """Let the outbox refuse so many writes, as a full disk does."""
        left = 0
        write = outbox.write

        def refuse(what: Write, /) -> None:
            nonlocal left
            if left:
                left -= 1
                raise OutboxError("the disk is full")
            write(what)

        monkeypatch.setattr(outbox, "write", refuse)

        def begin(times: int) -> None:
            nonlocal left
            left = times

        return begin

    def test_the_thread_goes_on_where_it_had_written_last(
        self, watch: Watch, fail: Callable[[int], None]
    ) -> None:
        watch.read()
        watch.world.down(2)
        watch.look()
        fail(3)
        with watch.reader:
            for _ in range(40):
                watch.clock.wait_for_waiters()
                watch.clock.advance(1)
            watch.clock.wait_for_waiters()
        assert names(watch.delivered()) == ["incident.opened"]
        assert watch.reader.stats.failures == 3

    def test_a_round_that_fails_has_told_nothing(self, watch: Watch, fail: Callable[[int], None]) -> None:
        watch.read()
        watch.world.grow("orders", [[3]])
        watch.look()
        fail(1)
        with pytest.raises(OutboxError, match="full"):
            watch.reader.run_once()
        assert names(watch.delivered()) == []
        watch.reader = watch.another_reader()
        assert names(watch.read()) == ["partitions.added"]


class TestSilences:
    def test_what_another_process_adds_is_heeded(self, watch: Watch) -> None:
        watch.silence(broker=2)
        watch.world.down(2)
        watch.look()
        assert names(watch.after(100)) == []
        assert watch.reader.stats.standing == Standing(open=1, silenced=1)
        assert watch.reader.stats.suppressed[Suppressed.SILENCED] == 1
        assert names(watch.after(201)) == ["silence.ended", "incident.opened"]

    def test_what_another_process_removes_ends(self, watch: Watch) -> None:
        silence = watch.silence(broker=2)
        watch.world.down(2)
        watch.look()
        assert names(watch.after(100)) == []
        watch.outbox.write(Write(values={silence.key: None}))
        assert names(watch.read()) == ["silence.ended", "incident.opened"]

    def test_a_restart_under_a_silence_forgets_neither_it_nor_the_incident(self, watch: Watch) -> None:
        watch.silence(broker=2)
        watch.world.down(2)
        watch.look()
        watch.after(100)
        watch.reader = watch.another_reader()
        ended, opened = watch.after(201)
        assert (ended.name, opened.name) == ("silence.ended", "incident.opened")
        assert data(ended)["muted"] == {"incident.opened": 1}
        assert data(opened)["silenced"]


class TestTheThread:
    def test_ticks_each_second_and_hears_of_the_journal_at_once(self, watch: Watch) -> None:
        with watch.reader:
            watch.clock.wait_for_waiters()
            watch.world.down(2)
            watch.look()
            for _ in range(31):
                watch.clock.wait_for_waiters()
                watch.clock.advance(1)
            watch.clock.wait_for_waiters()
            assert names(watch.delivered()) == ["incident.opened"]

    def test_close_does_not_wait_for_the_next_tick(self, watch: Watch) -> None:
        watch.reader.start()
        watch.reader.start()
        watch.clock.wait_for_waiters()
        watch.reader.close()
        assert "kpe-incidents" not in {thread.name for thread in threading.enumerate()}
        watch.reader.close()
        watch.reader.start()
        assert "kpe-incidents" not in {thread.name for thread in threading.enumerate()}

    def test_while_it_is_being_started_it_passes_for_alive(
        self, watch: Watch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The system may take its time to begin a thread, and somebody asks `/livez` meanwhile."""
        start, heard = threading.Thread.start, list[bool]()

        def slowly(thread: threading.Thread) -> None:
            heard.append(watch.reader.alive)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", slowly)
        with watch.reader:
            assert heard == [True]
            assert watch.reader.alive
