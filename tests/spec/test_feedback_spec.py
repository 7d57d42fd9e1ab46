"""Plays every story of ``feedback/`` through the judge of brokers: one file per rule, one document per story.

A document is ``about`` (the story's name), ``policy`` (arguments of `Policy`, all times in **ms**; optional),
``brokers`` (1, 2 and 3 unless said otherwise), ``known`` (whether ten answers of 5 ms have been heard of
each; true unless said otherwise), ``partitions`` ({name: [leader, followers...]} or {name: [way, leader,
followers...]} with ``ways: 2``) and ``steps``. Times are in ms. A step may say, in this order,

- ``at``: the moment, counted from the story's beginning. A client listens all the time: up to there
  everybody is looked at each 5 ms. With ``deaf: true`` nobody is: the process was stopped.
- ``sent``, ``withdrawn``, ``failed``: partitions, or ``{partition: number of records}``; a broker stands for
  a partition that it leads, with one replica;
- ``unreachable``: brokers;
- ``answered``: ``{partition: latency}`` or ``{partition: [latency, number of records]}``;
- ``follow``: the brokers that metadata lists (and with ``needed: {leaders: [...]}`` those that lead
  something, while nobody follows); ``needs: {partition: [leader, followers...]}``: metadata says so from now
  on; ``moved: [from, to, records]``: a leader changed;
- ``probe``: brokers that must be exactly those that are due for one; they get it;
- ``heard: true``: one more look;

and then expect ``changes`` (in the words of `in_words`; all since the step before, [] if it does not say),
``standing`` and ``replica`` ({broker: word}, as leader and as replica), ``suspect``, ``leaders``,
``replicas``, ``blocked`` and ``down`` (brokers that are avoided as such), ``aside`` and ``stuck``
(partitions), ``standby``, ``due`` (for a probe) and ``threshold`` ({broker: ms}).
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import asdict

from kafka_partition_events.metadata.events import Role
from kafka_partition_events.routing.feedback import Feedback
from kafka_partition_events.routing.judgement import Change, Policy, Suspected
from kafka_partition_events.routing.lanes import Lane, Subject

STORIES = [
    pytest.param(story, id=f"{path.stem}: {story['about']}")
    for path in sorted((Path(__file__).parent / "feedback").glob("*.yaml"))
    for story in yaml.safe_load_all(path.read_text())
]
LOOK_MS = 5
MS = 1 / 1024
"""Seconds that a story's ms lasts: sums of these are exact, so a story may say what happens on the dot."""

DEFAULTS = asdict(Policy(told_after=0.0))
"""Most stories are about who is avoided, and when: so they tell it at once."""

COUNTS = ("probes_to_clear", "silence_factor", "tail_factor")


def in_words(change: Change) -> str:
    usual = "unknown" if change.usual is None else f"{change.usual / MS:g} ms"
    if isinstance(change, Suspected):
        role = "" if change.role is Role.LEADER else f" as {change.role}"
        return (
            f"suspected {change.broker}{role} {change.reason}: {change.outstanding} outstanding, "
            f"silent for {change.silence / MS:g} ms, usual {usual}"
        )
    return f"cleared {change.broker} {change.reason}: after {change.lasted / MS:g} ms, {change.probes} probes"


class Player:
    """A judge, and a client that reports to it."""

    def __init__(self, story: dict[str, Any]) -> None:
        in_ms = {name: value if name in COUNTS else round(value * 1000) for name, value in DEFAULTS.items()}
        words = in_ms | story.get("policy", {})
        self.feedback = Feedback(
            Policy(**{name: value if name in COUNTS else value * MS for name, value in words.items()})
        )
        self.brokers: list[int] = story.get("brokers", [1, 2, 3])
        self.feedback.follow(self.brokers, -1.0)
        self.feedback.standbys = ways = story.get("ways", 1) - 1
        self.lanes: dict[int | str, Lane] = {b: Lane("t", b, leader=b) for b in self.brokers}
        for number, (name, needs) in enumerate(story.get("partitions", {}).items()):
            way, leader, *followers = needs if ways else [0, *needs]
            self.lanes[name] = Lane("u", number, way, leader, frozenset(followers))
        if story.get("known", True):
            for lane in self.lanes.values():
                self.feedback.sent(lane, -1.0, 10)
            for lane in self.lanes.values():
                for _ in range(10):
                    self.feedback.answered(lane, 5 * MS, -1.0 + 5 * MS)
        self.ms = 0.0
        self.changes: list[str] = []
        self.look()

    @property
    def now(self) -> float:
        return self.ms * MS

    def note(self, changes: tuple[Change, ...]) -> None:
        self.changes += [in_words(change) for change in changes]

    def look(self) -> None:
        self.note(self.feedback.heard(self.now))

    def pass_until(self, ms: float, *, deaf: bool) -> None:
        while not deaf and self.ms + LOOK_MS < ms:
            self.ms += LOOK_MS
            self.look()
        self.ms = ms

    def play(self, step: dict[str, Any]) -> None:  # noqa: C901, PLR0912 - one branch for each word
        self.pass_until(step.get("at", self.ms), deaf=step.get("deaf", False))
        feedback = self.feedback
        for name, records in counted(step.get("sent")):
            feedback.sent(self.lanes[name], self.now, records)
        for name, records in counted(step.get("withdrawn")):
            feedback.withdrawn(self.lanes[name], self.now, records)
        for name, words in step.get("answered", {}).items():
            latency, records = words if isinstance(words, list) else (words, 1)
            for _ in range(records):
                self.note(feedback.answered(self.lanes[name], latency * MS, self.now))
        for name, records in counted(step.get("failed")):
            for _ in range(records):
                self.note(feedback.failed(self.lanes[name], self.now))
        for broker in step.get("unreachable", ()):
            self.note(feedback.unreachable(broker, self.now))
        if "follow" in step:
            words = step.get("needed")
            needed = None if words is None else {Subject(Role.LEADER, b) for b in words.get("leaders", ())}
            self.note(feedback.follow(step["follow"], self.now, needed))
        for name, (leader, *followers) in step.get("needs", {}).items():
            feedback.move(self.lanes[name], leader, frozenset(followers), self.now)
        if "moved" in step:
            before, after, records = step["moved"]
            feedback.withdrawn(self.lanes[before], self.now, records)
            feedback.sent(self.lanes[after], self.now, records)
        if "probe" in step:
            self.look()
            assert self.due() == step["probe"], "due for a probe"
            for broker in step["probe"]:
                feedback.probed(Subject(Role.LEADER, broker), self.now)
                feedback.sent(self.lanes[broker], self.now)
        for broker, name in step.get("try", {}).items():
            assert self.due() == [broker], "due for a probe"
            feedback.probed(Subject(Role.LEADER, broker), self.now)
            feedback.sent(self.lanes[name], self.now)
        if step.get("heard", True):
            self.look()

    def due(self) -> list[Any]:
        return [subject.id for subject in self.feedback.due_for_a_probe(self.now)]

    def seen(self, expected: str, words: Any) -> Any:  # noqa: PLR0911 - one for each word
        feedback = self.feedback
        match expected:
            case "standing":
                return {broker: feedback.standing(broker).name.lower() for broker in words}
            case "replica":
                return {broker: feedback.standing(broker, Role.REPLICA).name.lower() for broker in words}
            case "suspect" | "leaders" | "replicas" | "blocked" | "down":
                return sorted(getattr(feedback.avoidance, expected))
            case "stuck":
                return [name for name, lane in self.lanes.items() if feedback.is_stuck(lane)]
            case "aside":
                return [name for name, lane in self.lanes.items() if lane.aside]
            case "way":
                return feedback.way
            case "due":
                return self.due()
            case "threshold":
                return {broker: feedback.threshold(broker) / MS for broker in words}
        raise AssertionError(f"a story can't expect {expected!r}")


def counted(words: Any) -> list[tuple[int | str, int]]:
    if isinstance(words, dict):
        return list(words.items())
    return [(name, 1) for name in words or ()]


@pytest.mark.parametrize("story", STORIES)
def test_feedback_spec(story: dict[str, Any]) -> None:
    player = Player(story)
    for number, step in enumerate(story["steps"], 1):
        where = f"step {number}, at {step.get('at', player.ms)} ms"
        player.play(step)
        expect = dict(step.get("expect", {}))
        assert player.changes == expect.pop("changes", []), f"{where}: changes"
        player.changes.clear()
        for name, words in expect.items():
            assert player.seen(name, words) == words, f"{where}: {name}"
