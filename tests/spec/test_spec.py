"""Plays every specification file through a poller: one file per rule, one document per story.

A document is ``about`` (the story's name), ``poller`` (arguments, optional) and ``phases``. A phase may
``advance`` the clock; then it polls and gets either what it says to ``observe`` (arguments of
`kafka_partition_events.testing.scripted.observe`) or an ``error``; ``expect`` may then name, in the words
of `in_words`, the ``events`` (``metadata_rejected`` left out), the ``rejections`` that were told, and the
``cluster`` as leaders per topic.
"""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import ScriptedSource, observe
from tests.replay import apply

STORIES = [
    pytest.param(story, id=f"{path.stem}: {story['about']}")
    for path in sorted(Path(__file__).parent.glob("*.yaml"))
    for story in yaml.safe_load_all(path.read_text())
]


def in_words(event: ev.Event) -> str:  # noqa: C901, PLR0911, PLR0912 - a dictionary
    match event:
        case ev.MetadataRejected(reason=reason, topic=None, strike=strike):
            return f"{reason} whole answer strike {strike}"
        case ev.MetadataRejected(reason=reason, topic=topic, partition=partition, strike=strike):
            return f"{reason} {topic}{'' if partition is None else f'-{partition}'} strike {strike}"
        case ev.TopicRecreated(topic=topic, old=old, new=new, inferred=inferred):
            return f"topic_recreated {topic} {old.topic_id} -> {new.topic_id}{' inferred' * inferred}"
        case ev.TopicIdLearned(topic=topic, new=new):
            return f"topic_id_learned {topic} {new.topic_id}"
        case ev.PartitionsAdded(topic=topic, old=old, new=new):
            return f"partitions_added {topic} {len(old.partitions)} -> {len(new.partitions)}"
        case ev.LeaderChanged(topic=topic, partition=partition, old=old, new=new, moved=True):
            return f"leader_changed {topic}-{partition} {old.leader} -> {new.leader}"
        case ev.LeaderChanged(topic=topic, partition=partition, old=old, new=new):
            return f"leader_changed {topic}-{partition} epoch {old.leader_epoch} -> {new.leader_epoch}"
        case ev.IsrChanged(topic=topic, partition=partition, old=old, new=new):
            return f"isr_changed {topic}-{partition} {list(old.isr)} -> {list(new.isr)}"
        case ev.ReplicasChanged(topic=topic, partition=partition, old=old, new=new):
            return f"replicas_changed {topic}-{partition} {list(old.replicas)} -> {list(new.replicas)}"
        case ev.PartitionEvent(topic=topic, partition=partition):
            return f"{event.kind} {topic}-{partition}"
        case ev.TopicEvent(topic=topic):
            return f"{event.kind} {topic}"
        case ev.BrokerAdded(new=node) | ev.BrokerRemoved(old=node):
            return f"{event.kind} {node.id}"
        case ev.BrokerChanged(old=before, new=after):
            return f"broker_changed {before.id} {before.host} -> {after.host}"
        case ev.MetadataRecovered(attempts=attempts, blind_s=blind_s):
            return f"metadata_recovered attempts {attempts} blind {blind_s:g} s"
        case ev.MetadataStale(age_s=age_s, limit_s=limit_s):
            return f"metadata_stale age {age_s:g} s limit {limit_s:g} s"
        case _:
            return event.kind


@pytest.mark.parametrize("story", STORIES)
def test_spec(story: dict[str, Any]) -> None:
    clock, source = ManualClock(), ScriptedSource()
    sequence, state = count(1), EMPTY
    poller = MetadataPoller(source, clock=clock, **story.get("poller", {}))
    for number, phase in enumerate(story["phases"], 1):
        where = f"phase {number}"
        clock.advance(phase.get("advance", 0))
        source.then(_step(phase))
        events = poller.poll_once()
        assert [e.sequence for e in events] == [next(sequence) for _ in events], f"{where}: sequence"
        state = apply(state, events)
        in_force = poller.cluster or EMPTY
        assert state == in_force, f"{where}: the events do not lead to the snapshot"
        rejected = [in_words(e) for e in events if isinstance(e, ev.MetadataRejected)]
        expect = phase.get("expect", {})
        told = [in_words(e) for e in events if not isinstance(e, ev.MetadataRejected)]
        if "events" in expect:
            assert told == expect["events"], f"{where}: events"
        if "events" in expect or "rejections" in expect:
            assert rejected == expect.get("rejections", []), f"{where}: rejections"
        if "cluster" in expect:
            leaders = {name: [p.leader for p in info.partitions] for name, info in in_force.by_topic.items()}
            assert leaders == expect["cluster"], f"{where}: cluster"
    poller.close()


def _step(phase: dict[str, Any]) -> Any:
    if "error" in phase:
        return MetadataFetchError(phase["error"])
    return observe(**phase["observe"])
