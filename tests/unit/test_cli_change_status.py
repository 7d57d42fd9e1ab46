"""`kpe change ls`, `show` and `wait`: how far a change is, and how waiting for it ends."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kafka_partition_events.control.changes.evidence import Status
from kafka_partition_events.control.protocol.vocabulary import Verb
from tests.change_kit import StoryClient, documents, unreachable
from tests.control_kit import NEW, ONE, Story, gated, grown

Captured = pytest.CaptureFixture[str]

CURE = "the topic has grown, and Kafka can't shrink it; it waits for who follows until its deadline"


def at(story: Story, *news: Callable[[], Any]) -> StoryClient:
    return StoryClient(story, news=iter(news))


def requested(producers: str = "ab", **fields: Any) -> Story:
    story = Story()
    story.lives(producers)
    story.request(gated(**fields))
    story.tick()
    return story


def finishing(story: Story) -> Callable[[], Any]:
    """Let everybody follow."""

    def follow() -> None:
        story.probed("billing", NEW)
        story.tick()
        story.says("ab", Status.APPLIED)
        story.tick()

    return follow


class TestStatus:
    def test_open_changes_in_a_pipe(self, capsys: Captured) -> None:
        assert at(requested()).kpe("change", "ls") == 0
        (change,) = documents(capsys.readouterr().out)
        assert (change["format"], change["change_id"]) == ("kpe.change", ONE)

    def test_finished_ones_if_all_are_wanted(self, capsys: Captured) -> None:
        story = requested()
        story.command(Verb.CANCEL)
        assert at(story).kpe("change", "ls") == 0
        told = capsys.readouterr()
        assert (told.out, told.err) == ("", "kpe: note: no change is open; --all shows finished ones\n")
        assert at(story).kpe("change", "ls", "--all") == 0
        assert [change["state"] for change in documents(capsys.readouterr().out)] == ["cancelled"]

    def test_a_list_in_words(self, capsys: Captured) -> None:
        story = requested()
        story.says("a", Status.HELD)
        story.tick()
        assert at(story).kpe("change", "ls", "--output", "table") == 0
        headers, line = capsys.readouterr().out.splitlines()
        assert headers.split() == ["CHANGE", "STATE", "SUBJECT", "FOLLOWED", "BY"]
        followed = "2 producers: 1 held, 1 pending; gate held"
        assert " ".join(line.split()) == f"{ONE} requested orders 6 -> 12 {followed}"

    def test_one_in_words(self, capsys: Captured) -> None:
        story = grown(gated())
        story.command(Verb.CANCEL, "bob")
        desk = at(story)
        assert desk.kpe("change", "show", ONE, "--output", "table") == 0
        assert desk.reads == 1
        head, *lines = capsys.readouterr().out.splitlines()
        assert head.endswith("2 producers: 2 held; gate held")
        assert lines == [
            "  requested 2023-11-14 22:13:20Z by alice",
            "  happened 2023-11-14 22:13:20Z",
            "  deadline 2023-11-14 22:23:20Z",
            "  gate held",
            "  groups that have not followed: billing",
            f"  2023-11-14 22:13:20Z refused cancel by bob: {ONE} is gated; {CURE}",
        ]

    def test_one_that_has_come_to_nothing_tells_of_no_gate_and_of_nobody_who_has_not_followed(
        self, capsys: Captured
    ) -> None:
        story = requested()
        story.command(Verb.CANCEL, "bob")
        assert story.change.uncovered_groups
        assert at(story).kpe("change", "show", ONE, "--output", "table") == 0
        _, *lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == ["requested", "finished", "cancelled:"]


class TestWaitUntilConverged:
    def wait(self, story: Story, *news: Callable[[], Any], options: Iterable[str] = ()) -> int:
        return at(story, *news).kpe("change", "wait", ONE, *options)

    def test_it_converges(self, capsys: Captured) -> None:
        story = grown(gated())
        assert self.wait(story, unreachable, finishing(story)) == 0
        told = capsys.readouterr()
        assert [change["state"] for change in documents(told.out)] == ["converged"]
        states = [line.split()[2] for line in told.err.splitlines() if ONE in line]
        assert states == ["gated", "converged"]

    def test_it_ends_otherwise(self) -> None:
        story = requested()
        assert self.wait(story, lambda: story.command(Verb.CANCEL)) == 1

    def test_the_time_is_over(self, capsys: Captured) -> None:
        assert self.wait(grown(gated()), options=["--timeout", "90s"]) == 3
        assert capsys.readouterr().err.endswith("kpe: not converged within 90 s\n")
