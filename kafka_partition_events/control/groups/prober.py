"""The prober: how far consumer groups are that do not run the library. Needs confluent-kafka."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.index import GroupIndex
from kafka_partition_events.control.groups.state import DEAD, Group, Probe, Settling, coverage_of
from kafka_partition_events.control.groups.writers import Writers
from kafka_partition_events.control.protocol.partition_set import Coverage
from kafka_partition_events.control.protocol.records import Change, group_name
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.metadata.cluster import TopicInfo, TopicPartition

SCAN_EVERY_S: Final = 600.0
"""How old what is known of all groups may be, where nothing calls for a scan at once."""

_ANSWER_S: Final = 5.0


class GroupProber:
    """Looks at groups and writers from outside. Blocks for a few seconds; one thread at a time.

    A look asks only for what open changes concern: one request to describe their groups, one for the offsets
    of each. A scan of all groups, and of where they are in these topics,
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
        self._cluster_id: str | None = None
        self._index = GroupIndex()
        self._scanned: frozenset[tuple[str, bool]] = frozenset()
        self._scanned_at = 0.0
        self._settling: dict[str, dict[str, Settling]] = {}

    def look(self, changes: Collection[Change], now_ms: int) -> Probe:
        """Look at what open changes concern.

        It keeps what it needs between looks, for one: since when an assignment has stood unchanged. It can be
        thrown away at any time; another one takes longer to be sure, and nothing else.

        Args:
            changes: The open changes.
            now_ms: The time now by the brokers' clock.

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
            readers={topic: _named(found) for topic, found in readers.items() if found is not None},
            writers={topic: count for topic, count in writers.items() if count is not None},
            groups=self._progress(by_topic, topics, groups, now_ms),
            unseen=_named(concerned - groups.keys()),
        )

    def close(self) -> None:
        """Release the connections."""
        self._admin.close()
        self._writers.close()

    # -- which groups --------------------------------------------------------------------------------

    def _of_this_cluster(self, changes: Iterable[Change]) -> dict[str, list[Change]]:
        """Return the open changes, by topic."""
        open_ones = [change for change in changes if not change.state.final]
        if open_ones and self._cluster_id is None:
            self._cluster_id = self._admin.cluster_id(_ANSWER_S)
        by_topic: dict[str, list[Change]] = defaultdict(list)
        for change in open_ones:
            if change.spec.cluster_id == self._cluster_id:
                by_topic[change.spec.topic].append(change)
        return by_topic

    def _forget_all_but(self, by_topic: Mapping[str, list[Change]]) -> None:
        ids = [change.change_id for changes in by_topic.values() for change in changes]
        self._settling = {id_: self._settling.get(id_, {}) for id_ in ids}

    def _scan_if_due(self, by_topic: Mapping[str, list[Change]]) -> None:
        """Scan now and then, for each new topic, and when a change has happened: that opens its gate."""
        wanted = frozenset((topic, c.state.happened) for topic in by_topic for c in by_topic[topic])
        now = self._clock.monotonic()
        if wanted <= self._scanned and now < self._scanned_at + SCAN_EVERY_S:
            return
        scan(self._admin, self._index, by_topic.keys(), _ANSWER_S)
        self._scanned, self._scanned_at = wanted, now

    def _concerned(self, topic: str, changes: Iterable[Change]) -> set[str]:
        return self._index.of(topic).union(*(self._awaited(change) for change in changes))

    def _awaited(self, change: Change) -> set[str]:
        """Return the groups that a change waits for; where records can't hold a name, by what they hold."""
        awaited = {one.group for one in change.groups}.union(change.spec.required_groups or ())
        known = self._index.names
        return (
            awaited & known
            | {n for n in known if group_name(n) in awaited}
            | {name for name in awaited - known if group_name(name) == name}
        )

    # -- how far groups are --------------------------------------------------------------------------

    def _progress(
        self,
        by_topic: Mapping[str, list[Change]],
        topics: Mapping[str, TopicInfo],
        groups: Mapping[str, Group],
        now_ms: int,
    ) -> dict[str, dict[str, Coverage]]:
        asked = [
            (change, topics[topic], name)
            for topic in by_topic.keys() & topics.keys()
            for change in by_topic[topic]
            for name in groups.keys() & self._asked_for(change, groups)
        ]
        wanted: dict[str, set[TopicPartition]] = defaultdict(set)
        for change, info, name in asked:
            wanted[name].update(each.tp for each in info.partitions if each.partition in change.spec.affected)
        committed = self._admin.committed({name: sorted(tps) for name, tps in wanted.items()}, _ANSWER_S)
        found: dict[str, dict[str, Coverage]] = defaultdict(dict)
        for change, info, name in asked:
            if wanted[name] and name not in committed:
                continue  # nobody may read its offsets
            offsets = {tp.partition for tp in committed.get(name, ()) if tp.topic == info.name}
            affected, memory = [*change.spec.affected], self._settling[change.change_id]
            settling = memory.get(name, Settling()).looked(groups[name], info.name, affected, now_ms)
            memory[name] = settling
            settled = settling.settled(change.spec.settle_s, now_ms)
            found[change.change_id][group_name(name)] = coverage_of(
                groups[name], info.name, affected, offsets, settled=settled
            )
        return found

    def _asked_for(self, change: Change, groups: Mapping[str, Group]) -> set[str]:
        reading = {name for name, group in groups.items() if change.spec.topic in group.topics}
        return reading | self._awaited(change)


def scan(admin: GroupAdmin, index: GroupIndex, topics: Collection[str], timeout: float) -> dict[str, Group]:
    """Let an index take in all groups, and which have offsets of some topics; return those that can be seen.

    Raises:
        MetadataFetchError: nobody answers within `timeout` seconds.
    """
    # While coordinators move a list may lack groups that are there; who is gone is described as dead.
    ids = index.names.union(admin.groups(timeout))
    groups = admin.describe(ids, timeout)
    there = {name for name in ids if name not in groups or groups[name].state != DEAD}
    places = [each.tp for info in admin.topics(topics, timeout).values() for each in info.partitions]
    offsets = admin.committed(dict.fromkeys(there & groups.keys(), places), timeout)
    commits = {name: frozenset(tp.topic for tp in found) for name, found in offsets.items()}
    index.scan(there, (groups[name] for name in there & groups.keys()), commits)
    return groups


def _named(groups: Iterable[str]) -> frozenset[str]:
    return frozenset(group_name(name) for name in groups)


def _led(info: TopicInfo) -> list[TopicPartition]:
    return [each.tp for each in info.partitions if each.leader is not None]
