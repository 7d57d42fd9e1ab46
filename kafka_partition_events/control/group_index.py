"""Which groups have to do with a topic, from scans of all groups and looks at some. Pure."""

from collections.abc import Iterable, Mapping

from attrs import define, field

from kafka_partition_events.control.group_state import STABLE, Group, reads


@define
class GroupIndex:
    """What is known of groups. Not thread-safe.

    Attributes:
        scanned: The topics for which a scan has been made: what concerns them is complete.
    """

    scanned: frozenset[str] = frozenset()
    _assigned: dict[str, frozenset[str]] = field(factory=dict)
    _commits: dict[str, frozenset[str]] = field(factory=dict)
    _hidden: set[str] = field(factory=set)

    def scan(
        self, groups: Iterable[Group], commits: Mapping[str, frozenset[str]], topics: Iterable[str]
    ) -> None:
        """Take what a scan has shown of all groups.

        Args:
            groups: The groups.
            commits: The topics of which they have offsets.
            topics: Those that the scan was made for.
        """
        known, self._assigned, self._hidden = self._assigned, {}, set()
        self._commits = {**commits}
        for group in groups:
            self._assigned[group.group_id] = known.get(group.group_id, frozenset())
            self.saw(group)
        self.scanned = frozenset(topics)

    def saw(self, group: Group) -> None:
        """Take what a look at one group has shown.

        While a classic group rebalances nobody can see who has what; what was seen before stays.
        """
        hidden = group.members and not group.topics and group.state != STABLE
        if hidden:
            self._hidden.add(group.group_id)
        else:
            self._assigned[group.group_id] = group.topics
            self._hidden.discard(group.group_id)

    def of(self, topic: str) -> set[str]:
        """Return the groups to look at: they read the topic, have offsets of it, or nobody can tell."""
        has_it = (
            name
            for by_group in (self._assigned, self._commits)
            for name in by_group
            if topic in by_group[name]
        )
        return self._hidden.union(has_it)

    def readers(self, topic: str, groups: Mapping[str, Group]) -> frozenset[str] | None:
        """Return the groups with members that read a topic; None if that can't be told of one.

        Args:
            topic: The topic.
            groups: Those of `of` as they are now. One that is missing can't be seen: it is as it was.
        """
        known = {name: self._reads(topic, name, groups.get(name)) for name in self.of(topic)}
        return None if None in known.values() else frozenset(name for name, does in known.items() if does)

    def _reads(self, topic: str, name: str, group: Group | None) -> bool | None:
        did = topic in self._assigned.get(name, ())
        return did if group is None else reads(group, topic, did=did, commits=self._commits.get(name, ()))
