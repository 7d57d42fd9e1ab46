"""Which groups have to do with a topic, from scans of all groups and looks at some. Pure."""

from collections.abc import Collection, Iterable, Mapping

from attrs import define, field

from kafka_partition_events.control.groups.state import STABLE, Group, reads


@define
class GroupIndex:
    """What is known of groups. Not thread-safe.

    One that can't be seen now (its members are rebalancing, its coordinator is loading, we may not see it) is
    never taken for one that does not read a topic.
    """

    _assigned: dict[str, frozenset[str]] = field(factory=dict)
    _commits: dict[str, frozenset[str]] = field(factory=dict)
    _hidden: set[str] = field(factory=set)

    def scan(
        self, listed: Collection[str], groups: Iterable[Group], commits: Mapping[str, frozenset[str]]
    ) -> None:
        """Take what a scan has shown of all groups.

        What it could not tell of a group stays as it was. A group that is not listed is forgotten.

        Args:
            listed: The names of all groups.
            groups: Those of them that could be described.
            commits: The topics of which they have offsets, for those whose offsets could be read.
        """
        known = {**self._commits, **commits}
        self._commits = {name: known[name] for name in known.keys() & listed}
        self._assigned = {name: self._assigned[name] for name in self._assigned.keys() & listed}
        self._hidden = {*listed}
        for group in groups:
            self.saw(group)

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

    @property
    def names(self) -> set[str]:
        """The groups that are known."""
        return self._hidden.union(self._assigned, self._commits)

    def of(self, topic: str) -> set[str]:
        """Return the groups to look at: they read the topic, have offsets of it, or nobody can tell."""
        nobody_can_tell = self._hidden | (self._assigned.keys() - self._commits.keys())
        has_it = (
            name
            for by_group in (self._assigned, self._commits)
            for name in by_group
            if topic in by_group[name]
        )
        return nobody_can_tell.union(has_it)

    def readers(self, topic: str, groups: Mapping[str, Group]) -> frozenset[str] | None:
        """Return the groups with members that read a topic; None if that can't be told of one.

        Args:
            topic: The topic.
            groups: Those of `of` as they are now. One that is missing can't be seen.
        """
        known = {name: self._reads(topic, name, groups.get(name)) for name in self.of(topic)}
        return None if None in known.values() else frozenset(name for name, does in known.items() if does)

    def _reads(self, topic: str, name: str, group: Group | None) -> bool | None:
        did, commits = topic in self._assigned.get(name, ()), self._commits.get(name, frozenset())
        if group is None:
            return did or topic in commits or None
        return reads(group, topic, did=did, commits=commits)
