"""Plays every story of ``incidents/`` through the second lane: one file per rule, one document per story.

A document is ``about`` (the story's name), ``rules`` (arguments of `Rules`; optional), ``brokers`` (1, 2
and 3 unless said otherwise), ``topics`` (name -> the replicas of each partition; or ``count`` partitions
with the same ``replicas``) and ``steps``. All of that is there and seen at second 0. A step may say,

- ``at``: the second;
- ``silence``: the fields of a silence, ``for`` so many seconds from now; ``unsilence``: its id;
- ``up``, ``down``: brokers; ``planned``: whether a change had asked for what is found;
  ``create``, ``grow``, ``recreate``: topics as above; ``delete``: a topic;
- ``tell``: what else reaches the journal, see `EVENTS`;

and then ``expect`` what is told, in the words of `in_words` (all since the step before; nothing if it does
not say), ``standing`` (numbers above 0) and ``suppressed`` (the same).

Every story is played as it comes; with the reducer's state written and restored after each entry
(fifty times in a step that has more); with every
entry repeated, and all of a step once more; with a tick each second, as the reader has it; and, where there
are no silences, by a reader that was away and reads all of it at the end. The outcome must be the same, and
every notice must be what its JSON Schema says.
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import asdict

from kafka_partition_events.assets import schemas, validator
from kafka_partition_events.incidents import Rules, Silence
from kafka_partition_events.incidents.inputs import Happening
from kafka_partition_events.incidents.outputs import Notice, to_entry
from kafka_partition_events.incidents.reducer import Reducer
from kafka_partition_events.incidents.state import decode, encode
from kafka_partition_events.metadata import events as ev
from tests.incident_kit import Told, World, cleared, happenings, in_words, moment, suspected, told_by

STORIES = [
    pytest.param(story, id=f"{path.stem}: {story['about']}")
    for path in sorted((Path(__file__).parent / "incidents").glob("*.yaml"))
    for story in yaml.safe_load_all(path.read_text())
]
VALIDATORS = {name: validator(name) for name in schemas()}
EVENTS = {
    "unavailable": ev.MetadataUnavailable(error="timed out"),
    "stale": ev.MetadataStale(age_s=301.0, limit_s=300.0),
    "recovered": ev.MetadataRecovered(attempts=3, blind_s=12.5),
    "suspected": suspected(2),
    "cleared": cleared(2),
    "adaptive suspects": suspected(2, by="adaptive"),
    "adaptive clears": cleared(2, by="adaptive"),
    "capped": ev.CapReached(topic="orders", partitions=3, admitted=(0,), limit=1, partitioner="sticky"),
    "lifted": ev.CapLifted(topic="orders", partitions=3, partitioner="sticky"),
    "resync": ev.Resync(dropped=7),
    "rejected": ev.MetadataRejected(reason=ev.Rejection.SHRINK, topic="orders", kept="3", offered="2"),
    "rescued": ev.RecordsRescued(broker=2, copies=7, withheld=0),
}


class Player:
    """A world, and a reducer that hears of it."""

    def __init__(
        self, story: dict[str, Any], *, times: int = 1, restored: bool = False, ticks: bool = False
    ) -> None:
        topics = story.get("topics", {})
        self.rules = Rules(**story.get("rules", {}))
        self.world = World(story.get("brokers", [1, 2, 3]), {name: replicas(t) for name, t in topics.items()})
        self.reducer = Reducer(rules=self.rules)
        self.silences: dict[str, Silence] = {}
        self.told: list[Told] = []
        self.times, self.restored, self.ticks = times, restored, ticks
        self.at = 0
        self.hear(happenings(self.world.look(0)))

    def hear(self, found: Sequence[Happening]) -> None:
        for number, happening in enumerate(found):
            self.told += told_by(self.reducer, [happening] * self.times)
            if self.restored and number % (1 + len(found) // 50) == 0:
                self.reducer = decode(encode(self.reducer), self.rules)
                self.reducer.silences = tuple(self.silences.values())

    def happen(self, step: dict[str, Any]) -> list[Happening]:
        world, at = self.world, step["at"]
        world.up(*listed(step.get("up")))
        world.down(*listed(step.get("down")))
        for name in listed(step.get("delete")):
            world.delete(name)
        for name, words in {**step.get("create", {}), **step.get("recreate", {})}.items():
            world.create(name, replicas(words))
        for name, words in step.get("grow", {}).items():
            world.grow(name, replicas(words))
        found = world.look(at, planned=step.get("planned"))
        return happenings([*found, *(world.tell(EVENTS[words], at) for words in step.get("tell", ()))])

    def silence(self, step: dict[str, Any]) -> None:
        for words in listed(step.get("silence")):
            fields = {name: value for name, value in words.items() if name != "for"}
            since, until = moment(step["at"]), moment(step["at"] + words["for"])
            made = Silence(author="me", reason="a test", since=since, until=until, **fields)
            self.silences[made.id] = made
        for id_ in listed(step.get("unsilence")):
            del self.silences[id_]
        self.reducer.silences = tuple(self.silences.values())

    def play(self, step: dict[str, Any]) -> None:
        while self.ticks and self.at + 1 < step["at"]:
            self.at += 1
            self.told += self.reducer.tick(moment(self.at))
        self.at = step["at"]
        self.told += self.reducer.tick(moment(self.at) - timedelta.resolution)  # by what is silent up to now
        self.silence(step)
        found = self.happen(step)
        self.hear(found)
        if self.times > 1:
            self.hear(found)
        self.told += self.reducer.tick(moment(self.at))

    def words(self) -> list[str]:
        words = [in_words(told) for told in self.told]
        for told in self.told:
            if isinstance(told, Notice):
                validate(told)
        self.told.clear()
        return words


def validate(notice: Notice) -> None:
    entry = to_entry(notice, "c-1", moment(0))
    event = json.loads(entry.body)
    VALIDATORS["envelope"].validate(event)
    VALIDATORS[entry.name].validate(event["data"])


def replicas(words: Any) -> Any:
    return [words["replicas"]] * words["count"] if isinstance(words, dict) else words


def listed(words: Any) -> list[Any]:
    if words is None:
        return []
    return words if isinstance(words, list) else [words]


@pytest.mark.parametrize(
    "mode",
    [{}, {"restored": True}, {"times": 2}, {"ticks": True}],
    ids=["as it comes", "restored after each entry", "everything repeated", "a tick each second"],
)
@pytest.mark.parametrize("story", STORIES)
def test_incidents_spec(story: dict[str, Any], mode: dict[str, Any]) -> None:
    player = Player(story, **mode)
    for number, step in enumerate(story["steps"], 1):
        where = f"step {number}, at {step['at']} s"
        player.play(step)
        assert player.words() == step.get("expect", []), where
        reducer = player.reducer
        if "standing" in step:
            assert {name: n for name, n in asdict(reducer.standing).items() if n} == step["standing"], where
        if "suppressed" in step:
            assert {reason.value: n for reason, n in reducer.suppressed.items() if n} == step["suppressed"], (
                where
            )


@pytest.mark.parametrize("story", [story for story in STORIES if "silence" not in str(story.values[0])])
def test_a_reader_that_was_away_tells_the_same(story: dict[str, Any]) -> None:
    player = Player(story)
    found = [happening for step in story["steps"] for happening in player.happen(step)]
    player.hear(found)
    player.told += player.reducer.tick(moment(story["steps"][-1]["at"]))
    assert player.words() == [words for step in story["steps"] for words in step.get("expect", ())]
