"""Plays every story of ``feedback/`` through the failure detector: one file per rule, one document per story.

A document is ``about`` (the story's name), ``policy`` (arguments of `DetectorPolicy`, all times in **ms**;
optional), ``brokers`` (1, 2 and 3 unless said otherwise), ``known`` (whether ten answers of 5 ms have been
heard of each; true unless said otherwise), ``partitions`` ({name: [leader, followers...]} or {name: [handle,
leader, followers...]} with ``handles: 2``) and ``steps``. Times are in ms. A step may say, in this order,

- ``at``: the moment, counted from the story's beginning. A client polls its delivery reports each 5 ms up to
  there. With ``deaf: true`` it does not: the process was stopped.
- ``sent``, ``withdrawn``, ``failed``: partitions, or ``{partition: number of records}``; a broker stands for
  a partition that it leads, with one replica;
- ``unreachable``: brokers; ``throttled``: ``{broker: ms}``;
- ``answered``: ``{partition: latency}`` or ``{partition: [latency, number of records]}``;
- ``snapshot``: the brokers that metadata lists (and with ``needed: {leaders: [...]}`` those that lead
  something, while none follows); ``needs: {partition: [leader, followers...]}``: metadata says so from now
  on; ``moved: [from, to, records]``: a leader changed;
- ``probe``: brokers that must be exactly those that are due for one; they get it; ``try: {broker: name}``
  sends that of a broker to one of its partitions;
- ``write``: steady traffic up to ``until``: each ``every`` ms one record to each partition whose brokers are
  not avoided, and the probes that are due; ``takes: {partition: [latencies, ...]}`` are its answers' in turn,
  in order on each connection (none: no answer);
- ``polled: false``: no poll at the end of the step;

and then expect ``changes`` (in the words of `in_words`; all since the step before, [] if it does not say),
``trust`` and ``replica`` ({broker: word}, as leader and as replica), ``suspect``, ``leaders``,
``replicas``, ``blocked`` and ``down`` (brokers that are avoided as such), ``aside`` and ``stuck``
(partitions), ``handle``, ``due`` (for a probe) and ``patience`` ({broker: ms}).
"""

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import asdict

from kafka_partition_events.health.avoiding import due_probes
from kafka_partition_events.health.broker_state import BrokerState
from kafka_partition_events.health.circuits import Change
from kafka_partition_events.health.detector import FailureDetector
from kafka_partition_events.health.in_flight import InFlight, Subject
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.events import BrokerSuspected, Role

STORIES = [
    pytest.param(story, id=f"{path.stem}: {story['about']}")
    for path in sorted((Path(__file__).parent / "feedback").glob("*.yaml"))
    for story in yaml.safe_load_all(path.read_text())
]
POLL_MS = 5
MS = 1 / 1024
"""Seconds that a story's ms lasts: sums of these are exact, so a story may say what happens on the dot."""

DEFAULTS = asdict(DetectorPolicy(announce_after=0.0))
"""Most stories are about who is avoided, and when: so they tell it at once."""

COUNTS = ("probes_to_clear", "median_factor", "tail_factor")


def in_words(change: Change) -> str:
    usual = "unknown" if change.usual_ms is None else f"{change.usual_ms / 1000 / MS:g} ms"
    if isinstance(change, BrokerSuspected):
        role = "" if change.role is Role.LEADER else f" as {change.role}"
        return (
            f"suspected {change.broker}{role} {change.reason}: {change.outstanding} outstanding, "
            f"silent for {change.silence_ms / 1000 / MS:g} ms, usual {usual}"
        )
    lasted = change.suspected_ms / 1000 / MS
    return f"cleared {change.broker} {change.reason}: after {lasted:g} ms, {change.probes} probes"


class Player:
    """A detector, and a client that reports to it."""

    def __init__(self, story: dict[str, Any]) -> None:
        in_ms = {name: value if name in COUNTS else round(value * 1000) for name, value in DEFAULTS.items()}
        words = in_ms | story.get("policy", {})
        self.detector = FailureDetector(
            DetectorPolicy(**{name: value if name in COUNTS else value * MS for name, value in words.items()})
        )
        self.brokers: list[int] = story.get("brokers", [1, 2, 3])
        self.detector.snapshot(self.brokers, -1.0)
        self.detector.standbys = standbys = story.get("handles", 1) - 1
        self.partitions: dict[int | str, InFlight] = {b: InFlight("t", b, leader=b) for b in self.brokers}
        for number, (name, needs) in enumerate(story.get("partitions", {}).items()):
            handle, leader, *followers = needs if standbys else [0, *needs]
            self.partitions[name] = InFlight("u", number, handle, leader, frozenset(followers))
        if story.get("known", True):
            for it in self.partitions.values():
                self.detector.sent(it, -1.0, 10)
            for it in self.partitions.values():
                for _ in range(10):
                    self.detector.answered(it, 5 * MS, -1.0 + 5 * MS)
        self.ms = 0.0
        self.changes: list[str] = []
        self.reports: list[tuple[float, int | str, float]] = []
        self.free_at: dict[tuple[int, int | None], float] = {}
        self.poll()

    @property
    def now(self) -> float:
        return self.ms * MS

    def note(self, changes: tuple[Change, ...]) -> None:
        self.changes += [in_words(change) for change in changes]

    def poll(self) -> None:
        self.note(self.detector.polled(self.now))

    def pass_until(self, ms: float, *, deaf: bool) -> None:
        while not deaf and self.ms + POLL_MS < ms:
            self.ms += POLL_MS
            self.poll()
        self.ms = ms

    def play(self, step: dict[str, Any]) -> None:  # noqa: C901, PLR0912 - one branch for each word
        self.pass_until(step.get("at", self.ms), deaf=step.get("deaf", False))
        detector = self.detector
        for name, records in counted(step.get("sent")):
            detector.sent(self.partitions[name], self.now, records)
        for name, records in counted(step.get("withdrawn")):
            detector.withdrawn(self.partitions[name], self.now, records)
        for name, words in step.get("answered", {}).items():
            latency, records = words if isinstance(words, list) else (words, 1)
            for _ in range(records):
                self.note(detector.answered(self.partitions[name], latency * MS, self.now))
        for name, records in counted(step.get("failed")):
            for _ in range(records):
                self.note(detector.failed(self.partitions[name], self.now))
        for broker in step.get("unreachable", ()):
            self.note(detector.unreachable(broker, self.now))
        for broker, ms in step.get("throttled", {}).items():
            detector.throttled(broker, ms * MS, self.now)
        if "snapshot" in step:
            words = step.get("needed")
            needed = None if words is None else {Subject(Role.LEADER, b) for b in words.get("leaders", ())}
            self.note(detector.snapshot(step["snapshot"], self.now, needed))
        for name, (leader, *followers) in step.get("needs", {}).items():
            detector.moved(self.partitions[name], leader, frozenset(followers), self.now)
        if "moved" in step:
            before, after, records = step["moved"]
            detector.withdrawn(self.partitions[before], self.now, records)
            detector.sent(self.partitions[after], self.now, records)
        if "probe" in step:
            self.poll()
            assert self.due() == step["probe"], "due for a probe"
            for broker in step["probe"]:
                detector.probed(Subject(Role.LEADER, broker), self.now)
                detector.sent(self.partitions[broker], self.now)
        for broker, name in step.get("try", {}).items():
            assert self.due() == [broker], "due for a probe"
            detector.probed(Subject(Role.LEADER, broker), self.now)
            detector.sent(self.partitions[name], self.now)
        if "write" in step:
            self.write(**step["write"])
        if step.get("polled", True):
            self.poll()

    def write(self, until: float, every: float, takes: dict[int | str, list[float]]) -> None:
        """Send steadily and answer in order, as a producer with feedback would see it."""
        latencies = {name: cycle(those) for name, those in takes.items()}
        free_at = self.free_at
        next_at = self.ms
        while self.ms < until:
            self.ms += POLL_MS
            for report in sorted(r for r in self.reports if r[0] <= self.ms):
                self.reports.remove(report)
                at, name, sent_at = report
                self.note(self.detector.answered(self.partitions[name], (at - sent_at) * MS, self.now))
            self.poll()
            probed = set(self.due())
            if self.ms < next_at and not probed:
                continue
            for name, its_latencies in latencies.items():
                it = self.partitions[name]
                if self.ms >= next_at and it.leader not in self.detector.avoidance.suspect:
                    pass
                elif it.leader in probed:
                    self.detector.probed(it.brokers[0], self.now)
                else:
                    continue
                self.detector.sent(it, self.now)
                connection, at = (it.handle, it.leader), self.ms + next(its_latencies)
                free_at[connection] = max(free_at.get(connection, 0.0), at)
                self.reports.append((free_at[connection], name, self.ms))
            if self.ms >= next_at:
                next_at += every

    def state(self, broker: int, role: Role = Role.LEADER) -> BrokerState:
        return self.detector.seen.state(Subject(role, broker))

    def due(self) -> list[Any]:
        return [b.subject.id for b in due_probes(self.detector.seen, self.now)]

    def seen(self, expected: str, words: Any) -> Any:  # noqa: PLR0911 - one for each word
        detector = self.detector
        match expected:
            case "trust":
                return {broker: self.state(broker).trust.name.lower() for broker in words}
            case "replica":
                return {broker: self.state(broker, Role.REPLICA).trust.name.lower() for broker in words}
            case "suspect" | "leaders" | "replicas" | "blocked" | "down":
                return sorted(getattr(detector.avoidance, expected))
            case "stuck":
                stuck = detector.stuck(self.now)
                return [name for name, it in self.partitions.items() if it in stuck]
            case "aside":
                return [name for name, it in self.partitions.items() if it.is_aside]
            case "handle":
                return detector.handle
            case "due":
                return self.due()
            case "patience":
                return {broker: detector.seen.patience(self.state(broker)) / MS for broker in words}
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
