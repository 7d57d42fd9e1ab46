"""When a complete assignment has stood for long enough to be a position."""

from typing import Any

from kafka_partition_events.control.groups.state import Group, Member, Settling
from kafka_partition_events.metadata.cluster import TopicPartition
from tests.control_kit import NEW

NOW_MS = 1_700_000_000_000
HALF, REST = frozenset({6, 7, 8}), frozenset({9, 10, 11})
NONE: frozenset[int] = frozenset()


def of_orders(partitions: frozenset[int]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", partition) for partition in partitions)


def group(*shares: frozenset[int], **fields: Any) -> Group:
    """A group with a member for each share of "orders"."""
    members = tuple(Member(member_id=f"m{n}", assigned=of_orders(share)) for n, share in enumerate(shares))
    return Group(**{"group_id": "billing", "members": members, **fields})


class TestSettling:
    def after(self, *looks: tuple[int, Group]) -> Settling:
        memory = Settling()
        for second, found in looks:
            memory = memory.updated(found, "orders", NEW, NOW_MS + 1_000 * second)
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
        hidden = group(NONE, state="PREPARING_REBALANCE")
        for interrupted in (group(REST, HALF), hidden):
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
