"""The gate benchmark's pure parts: what it counts as missed, as early, as held; and its page."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from benchmarks.gate.counting import Moments, Run, run_of
from benchmarks.gate.diary import Diary, Entry, read

S = 1_000_000_000
OLD, NEW = 0, 6
GATED = Moments(positioned=10 * S, grown=20 * S, opened=30 * S, deadline=320 * S)


def acked(partition: int, offset: int, at_s: float) -> Entry:
    return Entry(0, partition, offset, round(at_s * S))


def count(*entries: Entry, received: Any = None, moments: Moments = GATED) -> Run:
    everything = {(entry.partition, entry.offset) for entry in entries}
    return run_of(0, entries, everything if received is None else received, moments, "evidence")


class TestMissed:
    def test_is_what_was_acknowledged_and_nobody_has_received(self) -> None:
        run = count(acked(OLD, 1, 11), acked(NEW, 0, 31), acked(NEW, 1, 32), received={(NEW, 1)})
        assert (run.acked, run.acked_new) == (3, 2)
        assert (run.missed_old, run.missed_new, run.missed) == (1, 1, 2)

    def test_does_not_matter_before_the_group_was_positioned(self) -> None:
        run = count(acked(OLD, 1, 9.9), acked(OLD, 2, 10), received={(OLD, 2)})
        assert (run.acked, run.missed) == (1, 0)

    def test_is_not_what_was_received_and_never_acknowledged(self) -> None:
        assert count(acked(OLD, 1, 11), received={(OLD, 1), (OLD, 2)}).missed == 0


class TestGate:
    def test_opens_when_its_record_is_appended(self) -> None:
        run = count(acked(NEW, 0, 31))
        assert (run.open_s, run.used_s, run.early, run.opened_by) == (10.0, 11.0, 0, "evidence")

    def test_what_comes_to_new_partitions_sooner_is_early(self) -> None:
        assert count(acked(NEW, 0, 29), acked(NEW, 1, 31), acked(OLD, 5, 29)).early == 1

    def test_opened_by_producers_after_the_deadline_is_not_early(self) -> None:
        by_clock = evolve(GATED, opened=None, deadline=60 * S)
        run = count(acked(NEW, 0, 61), acked(NEW, 1, 62), moments=by_clock)
        assert (run.early, run.opened_by, run.open_s) == (0, "itself", 41.0)
        assert count(acked(NEW, 0, 59), moments=by_clock).early == 1

    def test_opened_by_producers_before_the_record_could_be_written(self) -> None:
        run = count(acked(NEW, 0, 61), moments=evolve(GATED, opened=65 * S, deadline=60 * S))
        assert (run.early, run.opened_by) == (0, "itself")

    def test_is_nothing_where_nobody_waits(self) -> None:
        run = count(acked(NEW, 0, 21), moments=Moments(positioned=10 * S, grown=20 * S))
        assert (run.open_s, run.used_s, run.early) == (None, 1.0, 0)

    @pytest.mark.parametrize(("struck_s", "held"), [(25, True), (31, False)])
    def test_was_held_or_not_when_something_went_wrong(self, struck_s: int, held: bool) -> None:
        run = count(acked(NEW, 0, 31), moments=evolve(GATED, struck=struck_s * S))
        assert run.held_when_struck is held


class TestDiary:
    def test_tells_what_was_noted_in_order(self, tmp_path: Path) -> None:
        path = tmp_path / "diary"
        assert read(path) == []
        Diary(path).note(3, [(1, 10), (2, 20)])
        Diary(path).note(4, [(7, 70)])
        entries = read(path)
        assert [(e.topic, e.partition, e.offset) for e in entries] == [(3, 1, 10), (3, 2, 20), (4, 7, 70)]
        assert read(path, skip=2) == entries[2:]

    def test_an_entry_that_is_being_written_is_left_for_later(self, tmp_path: Path) -> None:
        path = tmp_path / "diary"
        Diary(path).note(3, [(1, 10), (2, 20)])
        path.write_bytes(path.read_bytes()[:-1])
        assert [entry.offset for entry in read(path)] == [10]
