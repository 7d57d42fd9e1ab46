"""The prober: answers for consumer groups that do not run the library. Needs confluent-kafka."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from kafka_partition_events.control.groups.admin import GroupAdmin, OffsetsByPartition
from kafka_partition_events.control.groups.index import GroupIndex
from kafka_partition_events.control.groups.outside_view import Probe
from kafka_partition_events.control.groups.state import DEAD, Group, Offsets, Settling, Standing, standing
from kafka_partition_events.control.groups.writers import Writers
from kafka_partition_events.control.protocol.records import GROUP_PREFIX, Ack, Change
from kafka_partition_events.control.protocol.vocabulary import Role
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import TopicInfo, TopicPartition

SCAN_EVERY_S: Final = 600.0
"""How old what is known of all groups may be, where nothing calls for a scan at once."""

_ANSWER_S: Final = 5.0


@frozen
class _Said:
    standing: Standing
    seen_count: int


@define
class _OfChange:
    """What is remembered of one open change, by group."""

    settling: dict[str, Settling] = field(factory=dict)
    said: dict[str, _Said] = field(factory=dict)


class GroupProber:
    """Looks at groups and writers from outside; see `control.probe.Prober`. One thread at a time.

    A look asks only for what open changes concern: one request to describe their groups, one for the offsets
    of each, two for the ends of the partitions. A scan of all groups, and of where they are in these topics,
    comes before the first look for a topic, when a change has happened, and then every `SCAN_EVERY_S`
    seconds. Without open changes nothing is asked. A group that a scan can not describe may read anything; so
    it is looked at each time, until it can be seen.

    Writers are told where kafka-python is installed and can connect as the settings say.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        clock: Clock | None = None,
        admin: Callable[[Mapping[str, Any]], GroupAdmin] = GroupAdmin,
        writers: Callable[[Mapping[str, Any]], Writers] = Writers,
    ) -> None:
        """Connect in the background.

        Args:
            config: librdkafka's settings for the cluster that is changed; those that say how to connect are
                used.
            clock: For tests.
            admin: Likewise.
            writers: Likewise.

        Raises:
            ConfigurationError: librdkafka refuses a setting.
        """
        self._admin = admin(config)
        self._writers = writers(config)
        self._clock = clock or SystemClock()
        self._incarnation = uuid.uuid4().hex
        self._cluster_id: str | None = None
        self._index = GroupIndex()
        self._scanned: frozenset[tuple[str, bool]] = frozenset()
        self._scanned_at = 0.0
        self._memory: dict[str, _OfChange] = {}
        self._begin: OffsetsByPartition = {}
        self._end: OffsetsByPartition = {}
        self._acks = 0

    def look(self, changes: Collection[Change], now_ms: int) -> Probe:
        """Look at what open changes concern; see `Prober.look`.

        Raises:
            MetadataFetchError: nobody answers.
        """
        by_topic = self._of_this_cluster(changes)
        self._forget_all_but(by_topic)
        if not by_topic:
            return Probe()
        self._scan_if_due(by_topic)
        concerned = {name for topic in by_topic for name in self._concerned(topic, by_topic[topic])}
        groups = self._admin.describe(concerned, _ANSWER_S)
        for group in groups.values():
            self._index.saw(group)
        topics = self._admin.topics(by_topic.keys(), _ANSWER_S)
        readers = {topic: self._index.readers(topic, groups) for topic in by_topic}
        writers = {name: self._writers.count(_led(info), now_ms) for name, info in topics.items()}
        return Probe(
            readers={topic: found for topic, found in readers.items() if found is not None},
            writers={topic: count for topic, count in writers.items() if count is not None},
            acks=tuple(self._acks_for(by_topic, topics, groups, now_ms)),
            unseen=frozenset(concerned - groups.keys()),
        )

    def close(self) -> None:
        """Release the connections."""
        self._admin.close()
        self._writers.close()

    # -- which groups --------------------------------------------------------------------------------

    def _of_this_cluster(self, changes: Iterable[Change]) -> dict[str, list[Change]]:
        """Return the open changes of topics, by topic. Which groups a broker's partitions have varies."""
        open_ones = [change for change in changes if change.spec.topic is not None and not change.state.final]
        if open_ones and self._cluster_id is None:
            self._cluster_id = self._admin.cluster_id(_ANSWER_S)
        by_topic: dict[str, list[Change]] = defaultdict(list)
        for change in open_ones:
            if change.spec.topic is not None and change.spec.cluster_id == self._cluster_id:
                by_topic[change.spec.topic].append(change)
        return by_topic

    def _forget_all_but(self, by_topic: Mapping[str, list[Change]]) -> None:
        ids = [change.change_id for changes in by_topic.values() for change in changes]
        self._memory = {id_: self._memory.get(id_, _OfChange()) for id_ in ids}
        self._begin = {tp: offset for tp, offset in self._begin.items() if tp.topic in by_topic}
        self._end = {tp: offset for tp, offset in self._end.items() if tp.topic in by_topic}

    def _scan_if_due(self, by_topic: Mapping[str, list[Change]]) -> None:
        """Scan now and then, for each new topic, and when a change has happened: that opens its gate."""
        wanted = frozenset((topic, c.state.happened) for topic in by_topic for c in by_topic[topic])
        now = self._clock.monotonic()
        if wanted <= self._scanned and now < self._scanned_at + SCAN_EVERY_S:
            return
        # While coordinators move a list may lack groups that are there; who is gone is described as dead.
        ids = self._index.names.union(self._admin.groups(_ANSWER_S))
        groups = self._admin.describe(ids, _ANSWER_S)
        there = {name for name in ids if name not in groups or groups[name].state != DEAD}
        topics = self._admin.topics(by_topic.keys(), _ANSWER_S).values()
        places = [each.tp for info in topics for each in info.partitions]
        offsets = self._admin.committed(dict.fromkeys(there & groups.keys(), places), _ANSWER_S)
        commits = {name: frozenset(tp.topic for tp in found) for name, found in offsets.items()}
        self._index.scan(there, (groups[name] for name in there & groups.keys()), commits)
        self._scanned, self._scanned_at = wanted, now

    def _concerned(self, topic: str, changes: Iterable[Change]) -> set[str]:
        told_of = (name for change in changes for name in self._memory[change.change_id].said)
        return self._index.of(topic).union(_required(changes), told_of)

    # -- answers for groups --------------------------------------------------------------------------

    def _acks_for(
        self,
        by_topic: Mapping[str, list[Change]],
        topics: Mapping[str, TopicInfo],
        groups: Mapping[str, Group],
        now_ms: int,
    ) -> Iterable[Ack]:
        asked = [
            (change, topics[topic], name)
            for topic in by_topic.keys() & topics.keys()
            for change in by_topic[topic]
            for name in self._answered_for(change, groups)
        ]
        committed = self._committed(asked)
        self._look_at_ends({tp for c, info, _ in asked for tp in _affected(c, _led(info))})
        for change, info, name in asked:
            if name in committed:
                yield from self._news(change, groups[name], info, committed[name], now_ms)

    def _answered_for(self, change: Change, groups: Mapping[str, Group]) -> set[str]:
        """Return the groups to answer for: required, or readers; or that were, which may have left."""
        topic, said = change.spec.topic or "", self._memory[change.change_id].said
        reading = {name for name, group in groups.items() if topic in group.topics}
        return groups.keys() & reading.union(_required([change]), said)

    def _committed(self, asked: Iterable[tuple[Change, TopicInfo, str]]) -> dict[str, OffsetsByPartition]:
        wanted: dict[str, set[TopicPartition]] = defaultdict(set)
        for change, info, name in asked:
            wanted[name].update(_affected(change, [each.tp for each in info.partitions]))
        found = self._admin.committed({name: sorted(tps) for name, tps in wanted.items() if tps}, _ANSWER_S)
        return found | {name: {} for name, partitions in wanted.items() if not partitions}

    def _look_at_ends(self, partitions: Collection[TopicPartition]) -> None:
        """Look at those with a leader; nobody writes to the others, so they end where they did."""
        begin, end = self._admin.ends(partitions, _ANSWER_S)
        # The lowest: a group that has read what retention has deleted since then has moved nevertheless.
        self._begin |= {tp: min(offset, self._begin.get(tp, offset)) for tp, offset in begin.items()}
        self._end |= end

    def _news(
        self, change: Change, group: Group, info: TopicInfo, committed: OffsetsByPartition, now_ms: int
    ) -> Iterable[Ack]:
        spec, name, memory = change.spec, group.group_id, self._memory[change.change_id]
        settling = memory.settling.get(name, Settling()).looked(group, info.name, spec.affected, now_ms)
        memory.settling[name] = settling
        found = _Said(
            standing(
                group,
                info.name,
                spec.affected,
                Offsets(
                    committed=_of_topic(info.name, committed),
                    begin=_of_topic(info.name, self._begin),
                    end=_of_topic(info.name, self._end),
                ),
                settled=settling.settled(spec.settle_s, now_ms),
            ),
            len(info.partitions),
        )
        if found != memory.said.get(name):
            memory.said[name] = found
            yield self._ack(change, name, found)

    def _ack(self, change: Change, group: str, found: _Said) -> Ack:
        self._acks += 1
        levels = found.standing
        return Ack(
            change_id=change.change_id,
            revision=change.revision,
            instance_id=f"{GROUP_PREFIX}{group}",
            incarnation=self._incarnation,
            ack_seq=self._acks,
            role=Role.PROBER,
            group=group,
            status=levels.status(change.spec),
            seen_count=found.seen_count,
            used_count=levels.owned,
            members=levels.members,
            assigned=levels.assigned,
            positioned=levels.positioned,
            flowing=levels.flowing,
            drained=levels.drained,
        )


def _required(changes: Iterable[Change]) -> set[str]:
    return {name for change in changes for name in change.spec.required_groups or ()}


def _led(info: TopicInfo) -> list[TopicPartition]:
    return [each.tp for each in info.partitions if each.leader is not None]


def _affected(change: Change, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [tp for tp in partitions if tp.partition in change.spec.affected]


def _of_topic(topic: str, offsets: OffsetsByPartition) -> dict[int, int]:
    return {tp.partition: offset for tp, offset in offsets.items() if tp.topic == topic}
