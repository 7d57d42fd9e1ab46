"""The prober: how far consumer groups are that do not run the library. Needs confluent-kafka."""

from collections.abc import Collection, Mapping
from typing import Final

from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.state import DEAD, Group, Probe, Settling, reads
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import Change, group_name
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import TopicPartition

PROBE_S: Final = 5.0
"""Seconds between two rounds of questions."""

_ANSWER_S: Final = 5.0

_log = get_logger(__name__)


class GroupProber:
    """Sees groups from outside, as long as there are open changes. One thread at a time.

    It asks for all groups with members, since any of them may begin to read a topic, and for the offsets
    of those that a change waits for. One that can't be seen now (its members are rebalancing, its coordinator
    is loading, we may not see it) is never taken for one that does not read a topic. What it keeps
    can be thrown away at any time; another prober takes longer to be sure, and nothing else.

    Attributes:
        probe: What was seen last; empty if no broker answers.
    """

    def __init__(self, admin: GroupAdmin, *, clock: Clock | None = None) -> None:
        """Take over a connection; nothing is asked yet."""
        self.probe = Probe()
        self._admin = admin
        self._clock = clock or Clock()
        self._topics: dict[str, frozenset[str]] = {}  # of each group that was seen, as last seen
        self._settling: dict[str, dict[str, Settling]] = {}
        self._seen = frozenset[tuple[str, State]]()
        self._due = 0.0
        self._failing = False

    def watch(self, changes: Collection[Change], now_ms: int) -> None:
        """Probe for open changes now and then; at once if one is new, or has another state."""
        states = frozenset((change.change_id, change.state) for change in changes)
        if states <= self._seen and self._clock.monotonic() < self._due:
            return
        try:
            self.probe = self.probe_once(changes, now_ms)
        except MetadataFetchError as error:
            if not self._failing:
                _log.warning("prober_failed", error=str(error))
            self.probe, self._failing = Probe(), True
        else:
            self._failing = False
        self._seen, self._due = states, self._clock.monotonic() + PROBE_S

    def probe_once(self, changes: Collection[Change], now_ms: int) -> Probe:
        """Probe once what open changes concern, for a few seconds.

        Raises:
            MetadataFetchError: no broker answers.
        """
        self._settling = {change.change_id: self._settling.get(change.change_id, {}) for change in changes}
        if not changes:
            return Probe()
        # While coordinators move a list may lack groups that are there; who is gone is described as dead.
        listed = self._topics.keys() | self._admin.groups(_ANSWER_S, without_members=False)
        awaited = {
            one.group for change in changes for one in change.groups if one.group == group_name(one.group)
        }
        described = self._admin.describe(listed | awaited, _ANSWER_S)
        groups = {name: group for name, group in described.items() if group.state != DEAD}
        hidden = listed - described.keys()
        counts = {c.spec.topic: c.spec.to_count if c.state.happened else c.spec.from_count for c in changes}
        readers = {topic: self._readers(topic, count, groups, hidden) for topic, count in counts.items()}
        kept = {name: self._topics.get(name, frozenset()) for name in groups.keys() | hidden}
        self._topics = kept | {name: group.topics for name, group in groups.items() if not group.hides}
        return Probe(
            readers={topic: _named(found) for topic, found in readers.items() if found is not None},
            groups={change.change_id: self._positions(change, described, now_ms) for change in changes},
            unseen=_named((listed | awaited) - described.keys()),
            after=frozenset(change.change_id for change in changes if change.state.happened),
        )

    def close(self) -> None:
        """Release the connections."""
        self._admin.close()

    def _readers(
        self, topic: str, count: int, groups: Mapping[str, Group], hidden: Collection[str]
    ) -> set[str] | None:
        """Return the groups with members that read a topic; None if that is not known of one."""
        did = {name for name, topics in self._topics.items() if topic in topics}
        unclear = {n for n, group in groups.items() if reads(group, topic, did=n in did) is None}
        places = [TopicPartition(topic, partition) for partition in range(count)]
        committed = self._admin.committed(dict.fromkeys(unclear, places), _ANSWER_S)
        did |= {name for name, offsets in committed.items() if offsets}
        known = {name: reads(group, topic, did=name in did) for name, group in groups.items()}
        known |= {name: True if name in did else None for name in hidden}
        return None if None in known.values() else {name for name, does in known.items() if does}

    def _positions(self, change: Change, groups: Mapping[str, Group], now_ms: int) -> dict[str, PartitionSet]:
        """Return where the groups have a position that read a change's topic, or that it waits for."""
        topic, affected = change.spec.topic, [*change.spec.affected]
        awaited = {one.group for one in change.groups}
        asked = {
            name for name, group in groups.items() if topic in group.topics or group_name(name) in awaited
        }
        places = [TopicPartition(topic, partition) for partition in affected if change.state.happened]
        committed = self._admin.committed(dict.fromkeys(asked, places), _ANSWER_S)
        found, memory = dict[str, PartitionSet](), self._settling[change.change_id]
        for name in asked:
            if places and name not in committed:
                continue  # its offsets can't be read
            memory[name] = memory.get(name, Settling()).updated(groups[name], topic, affected, now_ms)
            offsets = PartitionSet.of(tp.partition for tp in committed.get(name, ()))
            found[group_name(name)] = change.spec.affected if memory[name].settled(now_ms) else offsets
        return found


def groups_of(admin: GroupAdmin, topic: str, count: int, timeout: float) -> dict[str, Group | None]:
    """Return the groups that read a topic, or have committed offsets of it; None: it can't be seen.

    Raises:
        MetadataFetchError: no broker answers.
    """
    names = admin.groups(timeout)
    groups = admin.describe(names, timeout)
    places = [TopicPartition(topic, partition) for partition in range(count)]
    offsets = admin.committed(dict.fromkeys(groups, places), timeout)
    return {
        name: groups.get(name)
        for name in names
        if name not in offsets or offsets[name] or groups[name].hides or topic in groups[name].topics
    }


def _named(groups: Collection[str]) -> frozenset[str]:
    return frozenset(group_name(name) for name in groups)
