"""How far a group is, told from what brokers say of it; and which groups a topic has."""

from typing import Any

from kafka_partition_events.control.groups.state import Group, Member, Settling, coverage_of, reads
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
        assert not memory.settled(NOW_MS + 9_999)
        assert memory.settled(NOW_MS + 10_000)

    def test_not_before_it_is_complete(self) -> None:
        memory = self.after((0, group(HALF)), (20, group(HALF, REST)))
        assert not memory.settled(NOW_MS + 29_000)
        assert memory.settled(NOW_MS + 30_000)

    def test_it_begins_again_when_partitions_change_hands_or_the_group_rebalances(self) -> None:
        for interrupted in (group(REST, HALF), hidden()):
            memory = self.after((0, group(HALF, REST)), (20, interrupted), (21, group(HALF, REST)))
            assert not memory.settled(NOW_MS + 30_000)
            assert memory.settled(NOW_MS + 31_000)

    def test_not_while_members_do_not_have_what_they_are_to_have(self) -> None:
        reconciling = Member(member_id="m", assigned=of_orders(NEW), target=of_orders(HALF))
        done = Member(member_id="m", assigned=of_orders(NEW), target=of_orders(NEW))
        for member, expected in ((reconciling, False), (done, True)):
            found = group(protocol="consumer", members=(member,))
            assert found.stable is expected
            assert self.after((0, found)).settled(NOW_MS + 10_000) is expected


class TestReaders:
    def reads(self, found: Group, *, did: bool = False) -> bool | None:
        return reads(found, "orders", did=did)

    def test_groups_with_members_that_have_the_topic(self) -> None:
        assert self.reads(group(NEW)) is True
        assert self.reads(Group(group_id="other", members=(Member(member_id="m"),))) is False

    def test_one_that_is_to_have_it(self) -> None:
        joins = group(members=(Member(member_id="m", target=of_orders(NEW)),), protocol="consumer")
        assert self.reads(joins) is True

    def test_not_one_without_members_whatever_it_has_committed(self) -> None:
        assert self.reads(group(state="EMPTY"), did=True) is False

    def test_not_one_that_has_gone_to_another_topic(self) -> None:
        elsewhere = Member(member_id="m", assigned=frozenset({TopicPartition("other", 0)}))
        assert self.reads(group(members=(elsewhere,)), did=True) is False

    def test_one_that_rebalances_is_what_it_was(self) -> None:
        assert self.reads(hidden(), did=True) is True

    def test_else_nobody_knows_until_it_can_be_seen(self) -> None:
        assert self.reads(hidden()) is None
        assert self.reads(group(NONE)) is False

    def test_one_that_reconciles_and_is_known_to_have_read_it_does(self) -> None:
        elsewhere = Member(member_id="m", assigned=frozenset({TopicPartition("other", 0)}))
        moving = group(members=(elsewhere,), protocol="consumer", state="RECONCILING")
        assert (self.reads(moving, did=True), self.reads(moving)) == (True, False)
