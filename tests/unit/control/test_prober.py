"""When the prober asks, and what it says; what it makes of the answers is tested with `group_state`."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

import pytest
from attrs import evolve

from kafka_partition_events import MetadataFetchError
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.control.groups.prober import PROBE_S, GroupProber, groups_of
from kafka_partition_events.control.groups.state import Group, Member
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import Change, GroupProgress
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.testing import ManualClock
from tests.control_kit import NEW, START_MS, gated, grown, growth

Offsets = dict[TopicPartition, int]
ALL = frozenset(range(12))


class Brokers:
    """What brokers answer. They count what they are asked."""

    def __init__(self) -> None:
        self.groups_now: dict[str, Group] = {}
        self.committed_now: dict[str, Offsets] = {}
        self.refused: set[str] = set()
        self.loading: set[str] = set()
        self.unlisted: set[str] = set()
        self.down = False
        self.asked: Counter[str] = Counter()

    def has(self, name: str, partitions: frozenset[int] = ALL, **fields: Any) -> None:
        assigned = frozenset(TopicPartition("orders", partition) for partition in partitions)
        members = (Member(member_id="m", assigned=assigned),)
        self.groups_now[name] = Group(**{"group_id": name, "members": members, **fields})

    def commits(self, name: str, offset: int, partitions: Iterable[int] = NEW) -> None:
        known = self.committed_now.setdefault(name, {})
        known |= {TopicPartition("orders", partition): offset for partition in partitions}

    # -- GroupAdmin ------------------------------------------------------------------------------------

    def groups(self, timeout: float, *, without_members: bool = True) -> set[str]:
        self.asked["list"] += 1
        if self.down:
            raise MetadataFetchError("nobody answers")
        listed = self.groups_now.keys() - self.unlisted
        return {name for name in listed if without_members or self.groups_now[name].state != "EMPTY"}

    def describe(self, ids: Collection[str], timeout: float) -> dict[str, Group]:
        self.asked["describe"] += 1
        there = {i for i in ids if i not in self.loading}
        return {i: self.groups_now.get(i, Group(group_id=i, state="DEAD")) for i in there}

    def committed(
        self, wanted: Mapping[str, Collection[TopicPartition]], timeout: float
    ) -> dict[str, Offsets]:
        return {
            name: {tp: at for tp, at in self.committed_now.get(name, {}).items() if tp in asked}
            for name, asked in wanted.items()
            if name not in self.refused | self.loading
        }

    def close(self) -> None:
        self.asked["close"] += 1


class Prober(GroupProber):
    """One that asks brokers which answer as the test says, by a clock of the test's."""

    def __init__(self) -> None:
        self.brokers, self.clock = Brokers(), ManualClock()
        self.brokers.has("billing")
        super().__init__(cast("GroupAdmin", self.brokers), clock=self.clock)


@pytest.fixture
def prober() -> Iterator[Prober]:
    prober = Prober()
    yield prober
    prober.close()
    assert prober.brokers.asked["close"] == 1


ASKED = grown(gated()).change


def groups(prober: GroupProber, asked: Change = ASKED, now_ms: int = START_MS) -> Mapping[str, PartitionSet]:
    return prober.probe_once([asked], now_ms).groups.get(asked.change_id, {})


class TestWhatItSees:
    def test_is_of_the_whole_group(self, prober: Prober) -> None:
        assert not groups(prober)["billing"]
        prober.brokers.commits("billing", 0)
        assert {*groups(prober)["billing"]} == NEW

    def test_for_each_change_of_its_own(self, prober: Prober) -> None:
        other = evolve(ASKED, change_id="chg-2")
        assert prober.probe_once([ASKED, other], START_MS).groups.keys() == {ASKED.change_id, "chg-2"}

    def test_before_the_topic_has_grown_too(self, prober: Prober) -> None:
        prober.brokers.has("billing", frozenset(range(6)))
        assert not groups(prober, evolve(ASKED, state=State.REQUESTED))["billing"]

    def test_a_position_when_the_assignment_has_settled(self, prober: Prober) -> None:
        groups(prober)
        assert not groups(prober, now_ms=START_MS + 9_000)["billing"]
        assert {*groups(prober, now_ms=START_MS + 10_000)["billing"]} == NEW


class TestOfWhom:
    def test_one_that_the_change_waits_for_though_it_has_lost_its_members(self, prober: Prober) -> None:
        prober.brokers.groups_now["billing"] = Group(group_id="billing", state="EMPTY")
        waits = evolve(ASKED, groups=(GroupProgress(group="billing"),))
        assert not groups(prober, waits)["billing"]
        prober.brokers.commits("billing", 0)
        assert {*groups(prober, waits)["billing"]} == NEW

    def test_one_that_a_record_names_in_other_words(self, prober: Prober) -> None:
        prober.brokers.has("\x1b[2J")
        (name,) = groups(prober).keys() - {"billing"}
        assert name.isprintable()
        prober.brokers.groups_now["\x1b[2J"] = Group(group_id="\x1b[2J", state="EMPTY")
        assert name in groups(prober, evolve(ASKED, groups=(GroupProgress(group=name),)))

    def test_not_one_whose_offsets_can_not_be_read(self, prober: Prober) -> None:
        prober.brokers.refused.add("billing")
        probe = prober.probe_once([ASKED], START_MS)
        assert not probe.groups[ASKED.change_id]
        assert probe.readers == {"orders": {"billing"}}


class TestWhoCanNotBeSeen:
    """Their coordinators are loading, or have moved; or it is not for us to see them."""

    def test_one_that_is_loading_during_the_scan_is_waited_for_and_soon_seen(self, prober: Prober) -> None:
        prober.brokers.has("audit")
        prober.brokers.loading = {"audit"}
        probe = prober.probe_once([ASKED], START_MS)
        assert probe.readers == {}
        assert probe.unseen == {"audit"}
        prober.brokers.loading = set()
        probe = prober.probe_once([ASKED], START_MS)
        assert probe.readers == {"orders": {"billing", "audit"}}
        assert probe.unseen == frozenset()

    def test_one_that_was_seen_before_is_a_reader_still(self, prober: Prober) -> None:
        prober.brokers.has("audit")
        prober.probe_once([ASKED], START_MS)
        prober.brokers.loading = {"audit"}
        probe = prober.probe_once([ASKED], START_MS)
        assert probe.readers == {"orders": {"billing", "audit"}}
        assert probe.unseen == {"audit"}

    def test_one_that_a_list_lacks_is_not_forgotten_unless_it_is_dead(self, prober: Prober) -> None:
        prober.brokers.has("audit")
        prober.brokers.has("gone")
        prober.probe_once([ASKED], START_MS)
        prober.brokers.unlisted = {"audit"}
        del prober.brokers.groups_now["gone"]
        probe = prober.probe_once([ASKED], START_MS)
        assert probe.readers == {"orders": {"billing", "audit"}}

    def test_one_that_rebalances_when_first_seen_is_known_by_what_it_committed(self, prober: Prober) -> None:
        prober.brokers.has("audit", frozenset(), state="PREPARING_REBALANCE")
        assert prober.probe_once([ASKED], START_MS).readers == {}, "nobody can tell"
        prober.brokers.commits("audit", 7)
        assert prober.probe_once([ASKED], START_MS).readers == {"orders": {"billing", "audit"}}
        prober.brokers.refused = {"audit"}
        assert prober.probe_once([ASKED], START_MS).readers == {}

    def test_one_that_rebalances_is_what_it_was(self, prober: Prober) -> None:
        prober.probe_once([ASKED], START_MS)
        prober.brokers.has("billing", frozenset(), state="PREPARING_REBALANCE")
        for _ in range(2):
            assert prober.probe_once([ASKED], START_MS).readers == {"orders": {"billing"}}
        prober.brokers.has("billing", frozenset())
        assert prober.probe_once([ASKED], START_MS).readers == {"orders": frozenset()}

    def test_one_that_was_seen_to_read_something_else_may_read_more_since_then(self, prober: Prober) -> None:
        elsewhere = Member(member_id="m", assigned=frozenset({TopicPartition("other", 0)}))
        prober.brokers.groups_now["audit"] = Group(group_id="audit", members=(elsewhere,))
        assert prober.probe_once([ASKED], START_MS).readers == {"orders": {"billing"}}
        prober.brokers.loading = {"audit"}
        assert prober.probe_once([ASKED], START_MS).readers == {}

    def test_one_that_reconciles_and_is_known_to_have_read_it_does(self, prober: Prober) -> None:
        prober.probe_once([ASKED], START_MS)
        elsewhere = Member(member_id="m", assigned=frozenset({TopicPartition("other", 0)}))
        joins = Member(member_id="n", target=frozenset({TopicPartition("orders", 0)}))
        for member in (elsewhere, joins):
            prober.brokers.has("billing", members=(member,), protocol="consumer", state="RECONCILING")
            assert prober.probe_once([ASKED], START_MS).readers == {"orders": {"billing"}}

    def test_one_to_which_members_come_is_a_reader_from_then_on(self, prober: Prober) -> None:
        prober.brokers.groups_now["idle"] = Group(group_id="idle", state="EMPTY")
        assert prober.probe_once([ASKED], START_MS).readers == {"orders": {"billing"}}
        prober.brokers.has("idle")
        assert prober.probe_once([ASKED], START_MS).readers == {"orders": {"billing", "idle"}}


class TestWhenItLooks:
    def test_not_without_an_open_change(self, prober: Prober) -> None:
        prober.watch([], START_MS)
        assert prober.probe.readers == {}
        assert not prober.brokers.asked

    def test_every_few_seconds_and_at_once_for_a_change_that_is_new_or_moved(self, prober: Prober) -> None:
        requested = evolve(ASKED, state=State.REQUESTED)
        for _ in range(3):
            prober.watch([requested], START_MS)
        assert prober.brokers.asked["list"] == 1
        prober.watch([ASKED], START_MS)
        assert prober.brokers.asked["list"] == 2
        assert prober.probe.after == {ASKED.change_id}
        other = evolve(ASKED, change_id="chg-2", spec=growth(topic="other"))
        prober.watch([ASKED, other], START_MS)
        assert prober.brokers.asked["list"] == 3
        assert prober.probe.readers == {"orders": {"billing"}, "other": frozenset()}
        prober.clock.advance(PROBE_S)
        prober.watch([ASKED], START_MS)
        assert prober.brokers.asked["list"] == 4

    def test_a_failure_leaves_nothing_known_and_the_next_look_asks_again(self, prober: Prober) -> None:
        prober.watch([ASKED], START_MS)
        prober.clock.advance(PROBE_S)
        prober.brokers.down = True
        prober.watch([ASKED], START_MS)
        assert (prober.probe.readers, prober.probe.after) == ({}, frozenset())
        prober.clock.advance(PROBE_S)
        prober.brokers.down = False
        prober.watch([ASKED], START_MS)
        assert prober.probe.readers == {"orders": {"billing"}}


def test_for_a_plan_all_groups_are_told_that_read_a_topic_or_did_or_may(prober: Prober) -> None:
    elsewhere = Member(member_id="m", assigned=frozenset({TopicPartition("other", 0)}))
    prober.brokers.groups_now["other"] = Group(group_id="other", members=(elsewhere,))
    for name in ("gone", "idle", "unread"):
        prober.brokers.groups_now[name] = Group(group_id=name, state="EMPTY")
    prober.brokers.commits("gone", 3)
    prober.brokers.has("moving", frozenset(), state="PREPARING_REBALANCE")
    prober.brokers.has("loading")
    prober.brokers.loading, prober.brokers.refused = {"loading"}, {"unread"}
    found = groups_of(cast("GroupAdmin", prober.brokers), "orders", 12, 1.0)
    assert found.keys() == {"billing", "gone", "moving", "loading", "unread"}
    assert [name for name, group in found.items() if group is None] == ["loading"]
