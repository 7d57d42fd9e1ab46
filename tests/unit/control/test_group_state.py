"""How far a group is, told from what brokers say of it; and which groups a topic has."""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_partition_events.control.groups.index import GroupIndex
from kafka_partition_events.control.groups.state import Group, Member, Settling, coverage_of
from kafka_partition_events.control.protocol.partition_set import Coverage
from kafka_partition_events.metadata.cluster import TopicPartition
from tests.control_kit import NEW

NOW_MS = 1_700_000_000_000
HALF, REST = frozenset({6, 7, 8}), frozenset({9, 10, 11})
NONE: frozenset[int] = frozenset()


def of_orders(partitions: frozenset[int]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", partition) for partition in partitions)


def group(*shares: frozenset[int], name: str = "billing", **fields: Any) -> Group:
    """A group with a member for each share of "orders"."""
    members = tuple(Member(member_id=f"m{n}", assigned=of_orders(share)) for n, share in enumerate(shares))
    return Group(**{"group_id": name, "members": members, **fields})


def hidden(name: str = "billing") -> Group:
    """A classic group in the middle of a rebalance: nobody can see who has what."""
    return group(NONE, name=name, state="PREPARING_REBALANCE")


def levels(found: Group, committed: dict[int, int] | None = None, *, settled: bool = False) -> Coverage:
    return coverage_of(found, "orders", NEW, committed or {}, settled=settled)


class TestLevels:
    def test_assigned_is_what_its_members_have_of_the_affected_partitions(self) -> None:
        assert {*levels(group(HALF | {0, 1}, REST | {2})).assigned} == NEW
        assert {*levels(group(HALF)).assigned} == HALF
        assert not levels(group()).assigned

    def test_positioned_is_what_it_has_committed_even_if_nobody_has_it_now(self) -> None:
        assert {*levels(group(), dict.fromkeys(HALF, 100)).positioned} == HALF

    def test_a_settled_assignment_is_a_position_too(self) -> None:
        assert {*levels(group(HALF), dict.fromkeys(REST, 100)).positioned} == REST
        assert {*levels(group(HALF), dict.fromkeys(REST, 100), settled=True).positioned} == NEW


class TestSettling:
    def after(self, *looks: tuple[int, Group]) -> Settling:
        memory = Settling()
        for second, found in looks:
            memory = memory.looked(found, "orders", NEW, NOW_MS + 1_000 * second)
        return memory

    def test_when_it_stands_unchanged_for_so_long(self) -> None:
        memory = self.after((0, group(NEW)), (10, group(NEW)))
        assert not memory.settled(30, NOW_MS + 29_999)
        assert memory.settled(30, NOW_MS + 30_000)

    def test_never_for_0_seconds(self) -> None:
        assert not self.after((0, group(NEW)), (99, group(NEW))).settled(0, NOW_MS + 99_000)

    def test_not_before_it_is_complete(self) -> None:
        memory = self.after((0, group(HALF)), (20, group(HALF, REST)))
        assert not memory.settled(30, NOW_MS + 49_000)
        assert memory.settled(30, NOW_MS + 50_000)

    def test_it_begins_again_when_partitions_change_hands_or_the_group_rebalances(self) -> None:
        for interrupted in (group(REST, HALF), hidden()):
            memory = self.after((0, group(HALF, REST)), (20, interrupted), (21, group(HALF, REST)))
            assert not memory.settled(30, NOW_MS + 50_000)
            assert memory.settled(30, NOW_MS + 51_000)

    def test_not_while_members_do_not_have_what_they_are_to_have(self) -> None:
        reconciling = Member(member_id="m", assigned=of_orders(NEW), target=of_orders(HALF))
        done = Member(member_id="m", assigned=of_orders(NEW), target=of_orders(NEW))
        for member, expected in ((reconciling, False), (done, True)):
            found = group(protocol="consumer", members=(member,))
            assert found.stable is expected
            assert self.after((0, found)).settled(30, NOW_MS + 30_000) is expected


class TestReaders:
    def index(self, *groups: Group, **known: Any) -> GroupIndex:
        return self.scan(GroupIndex(), *groups, **known)

    def scan(
        self,
        index: GroupIndex,
        *groups: Group,
        unseen: Iterable[str] = (),
        commits: Mapping[str, frozenset[str]] | None = None,
    ) -> GroupIndex:
        """Scan these groups, and some that are listed and can't be described."""
        names = [one.group_id for one in groups]
        index.scan([*names, *unseen], groups, {**dict.fromkeys(names, frozenset()), **(commits or {})})
        return index

    def readers(self, index: GroupIndex, *now: Group) -> set[str] | None:
        found = index.readers("orders", {one.group_id: one for one in now})
        return None if found is None else set(found)

    def test_groups_with_members_that_have_the_topic(self) -> None:
        reads, other = group(NEW), Group(group_id="other", members=(Member(member_id="m"),))
        index = self.index(reads, other)
        assert index.of("orders") == {"billing"}
        assert self.readers(index, reads) == {"billing"}

    def test_one_that_is_to_have_it(self) -> None:
        joins = group(members=(Member(member_id="m", target=of_orders(NEW)),), protocol="consumer")
        assert self.readers(self.index(joins), joins) == {"billing"}

    def test_not_one_without_members_whatever_it_has_committed(self) -> None:
        empty = group(state="EMPTY")
        index = self.index(empty, commits={"billing": frozenset({"orders"})})
        assert index.of("orders") == {"billing"}, "it is looked at: members may come"
        assert self.readers(index, empty) == set()

    def test_not_one_that_has_gone_to_another_topic(self) -> None:
        elsewhere = Member(member_id="m", assigned=frozenset({TopicPartition("other", 0)}))
        index = self.index(group(NEW), commits={"billing": frozenset({"orders"})})
        assert self.readers(index, group(members=(elsewhere,))) == set()

    def test_one_that_rebalances_is_what_it_was(self) -> None:
        index = self.index(group(NEW))
        index.saw(hidden())
        assert self.readers(index, hidden()) == {"billing"}

    def test_one_that_rebalances_when_first_seen_is_known_by_what_it_has_committed(self) -> None:
        for topic, expected in (("orders", {"billing"}), ("other", set())):
            index = self.index(hidden(), commits={"billing": frozenset({topic})})
            assert self.readers(index, hidden()) == expected

    def test_else_nobody_knows_until_it_can_be_seen(self) -> None:
        index = self.index(hidden(), group(NEW, name="shipping"))
        assert index.of("orders") == {"billing", "shipping"}
        assert self.readers(index, hidden(), group(NEW, name="shipping")) is None
        index.saw(group(NONE))
        assert index.of("orders") == {"shipping"}
        assert self.readers(index, group(NEW, name="shipping")) == {"shipping"}

    def test_one_that_is_gone_at_the_next_scan_is_forgotten(self) -> None:
        index = self.index(group(NEW))
        self.scan(index)
        assert index.of("orders") == set()

    # -- whom brokers do not describe: the coordinator is loading, or moves, or it is not for us to see ---

    def test_one_that_a_scan_can_not_describe_may_read_anything_until_it_is_seen(self) -> None:
        billing, audit = group(NEW), group(NEW, name="audit")
        index = self.index(billing, unseen=["audit"])
        assert self.readers(index, billing) is None
        assert index.of("orders") == {"billing", "audit"}, "each look asks for it again"
        assert index.of("any other") == {"audit"}
        index.saw(audit)
        assert self.readers(index, billing, audit) == {"billing", "audit"}

    def test_one_that_was_seen_before_still_reads_what_it_did(self) -> None:
        index = self.index(group(NEW), group(NEW, name="audit"))
        self.scan(index, group(NEW), unseen=["audit"])
        assert self.readers(index, group(NEW)) == {"billing", "audit"}

    def test_and_may_read_more_since_then(self) -> None:
        elsewhere = Member(member_id="m", assigned=frozenset({TopicPartition("other", 0)}))
        index = self.index(group(members=(elsewhere,)))
        self.scan(index, unseen=["billing"])
        assert self.readers(index) is None
        assert index.readers("other", {}) == frozenset({"billing"})

    def test_one_that_a_look_misses_reads_what_it_did(self) -> None:
        assert self.readers(self.index(group(NEW))) == {"billing"}

    def test_or_what_it_has_offsets_of_because_members_may_have_come(self) -> None:
        index = self.index(group(state="EMPTY"), commits={"billing": frozenset({"orders"})})
        assert self.readers(index) == {"billing"}

    def test_or_nobody_can_tell(self) -> None:
        assert self.readers(self.index(hidden())) is None

    def test_one_whose_offsets_can_not_be_read_has_those_that_were_known(self) -> None:
        index = self.index(group(state="EMPTY"), commits={"billing": frozenset({"orders"})})
        index.scan(["billing"], [group(state="EMPTY")], {})
        assert index.of("orders") == {"billing"}
        assert index.of("other") == set()

    def test_if_none_were_known_it_is_looked_at_for_every_topic(self) -> None:
        index = GroupIndex()
        index.scan(["billing"], [group(state="EMPTY")], {})
        assert index.of("orders") == {"billing"}
        assert self.readers(index, group(state="EMPTY")) == set(), "it is seen to have no members"
        assert self.readers(index, hidden()) is None

    def test_one_that_is_not_listed_any_more_is_forgotten_though_it_was_never_seen(self) -> None:
        index = self.index(unseen=["audit"])
        self.scan(index)
        assert self.readers(index) == set()
