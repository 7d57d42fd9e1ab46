"""When the prober asks, and what it says; what it makes of the answers is tested with `group_state`."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events import MetadataFetchError
from kafka_partition_events.control.groups.prober import SCAN_EVERY_S, GroupProber
from kafka_partition_events.control.groups.state import Group, Member
from kafka_partition_events.control.protocol.partition_set import Coverage
from kafka_partition_events.control.protocol.records import Change, GroupProgress
from kafka_partition_events.control.protocol.vocabulary import State
from kafka_partition_events.metadata.cluster import TopicInfo, TopicPartition
from kafka_partition_events.testing import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import CLUSTER, NEW, START_MS, Story, gated, growth

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
        self.partitions = 12
        self.writers: int | None = 3
        self.down = False
        self.asked: Counter[str] = Counter()

    def has(self, name: str, partitions: frozenset[int] = ALL, **fields: Any) -> None:
        assigned = frozenset(TopicPartition("orders", partition) for partition in partitions)
        members = (Member(member_id="m", assigned=assigned),)
        self.groups_now[name] = Group(**{"group_id": name, "members": members, **fields})

    def commits(self, name: str, offset: int, partitions: Iterable[int] = NEW) -> None:
        known = self.committed_now.setdefault(name, {})
        known |= {TopicPartition("orders", partition): offset for partition in partitions}

    # -- GroupAdmin and Writers ------------------------------------------------------------------------

    def cluster_id(self, timeout: float) -> str | None:
        return CLUSTER

    def topics(self, names: Collection[str], timeout: float) -> dict[str, TopicInfo]:
        leaders = [1] * self.partitions
        return {n: cluster_of({n: leaders}).by_topic[n] for n in names if n == "orders" and self.partitions}

    def groups(self, timeout: float) -> list[str]:
        self.asked["scan"] += 1
        if self.down:
            raise MetadataFetchError("nobody answers")
        return [name for name in self.groups_now if name not in self.unlisted]

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

    def count(self, partitions: Iterable[TopicPartition], now_ms: int) -> int | None:
        return self.writers

    def close(self) -> None:
        self.asked["close"] += 1


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    brokers.has("billing")
    return brokers


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def prober(brokers: Brokers, clock: ManualClock) -> Iterator[GroupProber]:
    def same(_config: Mapping[str, Any]) -> Any:
        return brokers

    prober = GroupProber({}, clock=clock, admin=same, writers=same)
    yield prober
    prober.close()
    assert brokers.asked["close"] == 2


def change(**fields: Any) -> Change:
    story = Story()
    story.request(gated(**{"required_groups": None, **fields}))
    return story.change


ASKED = change()


def groups(prober: GroupProber, asked: Change = ASKED, now_ms: int = START_MS) -> Mapping[str, Coverage]:
    return prober.look([asked], now_ms).groups.get(asked.change_id, {})


class TestWhatItSees:
    def test_is_of_the_whole_group(self, brokers: Brokers, prober: GroupProber) -> None:
        billing = groups(prober)["billing"]
        assert {*billing.assigned} == NEW
        assert not billing.positioned
        brokers.commits("billing", 0)
        assert {*groups(prober)["billing"].positioned} == NEW

    def test_for_each_change_of_its_own(self, prober: GroupProber) -> None:
        other = evolve(ASKED, change_id="chg-2")
        assert prober.look([ASKED, other], START_MS).groups.keys() == {ASKED.change_id, "chg-2"}

    def test_before_the_topic_has_grown_too(self, brokers: Brokers, prober: GroupProber) -> None:
        brokers.partitions = 6
        brokers.has("billing", frozenset(range(6)))
        assert not groups(prober)["billing"].assigned

    def test_a_position_when_the_assignment_has_settled(self, prober: GroupProber) -> None:
        groups(prober)
        assert not groups(prober, now_ms=START_MS + 29_000)["billing"].positioned
        assert {*groups(prober, now_ms=START_MS + 30_000)["billing"].positioned} == NEW


class TestOfWhom:
    def test_readers_and_required_groups_whatever_they_are(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.groups_now["idle"] = Group(group_id="idle", state="EMPTY")
        brokers.commits("idle", 0)
        brokers.commits("by-hand", 3)
        found = groups(prober, change(required_groups=("by-hand",)))
        assert found.keys() == {"billing", "by-hand"}
        assert {*found["by-hand"].positioned} == NEW

    def test_one_that_the_change_waits_for_though_it_has_lost_its_members(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.groups_now["billing"] = Group(group_id="billing", state="EMPTY")
        waits = evolve(ASKED, groups=(GroupProgress(group="billing"),))
        assert not groups(prober, waits)["billing"].positioned
        brokers.commits("billing", 0)
        assert {*groups(prober, waits)["billing"].positioned} == NEW

    def test_one_that_a_record_names_in_other_words(self, brokers: Brokers, prober: GroupProber) -> None:
        brokers.has("\x1b[2J")
        (name,) = groups(prober).keys() - {"billing"}
        assert name.isprintable()
        brokers.groups_now["\x1b[2J"] = Group(group_id="\x1b[2J", state="EMPTY")
        assert name in groups(prober, evolve(ASKED, groups=(GroupProgress(group=name),)))

    def test_not_one_whose_offsets_can_not_be_read(self, brokers: Brokers, prober: GroupProber) -> None:
        brokers.refused.add("billing")
        probe = prober.look([ASKED], START_MS)
        assert not probe.groups
        assert probe.readers == {"orders": {"billing"}}


class TestWhoCanNotBeSeen:
    """Their coordinators are loading, or have moved; or it is not for us to see them."""

    def test_one_that_is_loading_during_the_scan_is_waited_for_and_soon_seen(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.has("audit")
        brokers.loading = {"audit"}
        probe = prober.look([ASKED], START_MS)
        assert probe.readers == {}
        assert probe.unseen == {"audit"}
        brokers.loading = set()
        probe = prober.look([ASKED], START_MS)
        assert probe.readers == {"orders": {"billing", "audit"}}
        assert probe.unseen == frozenset()
        assert brokers.asked["scan"] == 1

    def test_one_that_was_seen_before_is_a_reader_still(self, brokers: Brokers, prober: GroupProber) -> None:
        brokers.has("audit")
        prober.look([ASKED], START_MS)
        brokers.loading = {"audit"}
        probe = prober.look([evolve(ASKED, state=State.GATED)], START_MS)
        assert brokers.asked["scan"] == 2
        assert probe.readers == {"orders": {"billing", "audit"}}
        assert probe.unseen == {"audit"}

    def test_one_that_a_list_lacks_is_not_forgotten_unless_it_is_dead(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.has("audit")
        brokers.has("gone")
        prober.look([ASKED], START_MS)
        brokers.unlisted = {"audit"}
        del brokers.groups_now["gone"]
        probe = prober.look([evolve(ASKED, state=State.GATED)], START_MS)
        assert brokers.asked["scan"] == 2
        assert probe.readers == {"orders": {"billing", "audit"}}

    def test_one_that_is_required_is_told_and_one_that_does_not_exist_is_not(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.loading = {"secret"}
        probe = prober.look([change(required_groups=("secret", "misspelt"))], START_MS)
        assert probe.readers == {"orders": {"billing"}}
        assert probe.unseen == {"secret"}

    def test_one_whose_offsets_the_scan_could_not_read_is_looked_at_because_members_may_come(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.groups_now["idle"] = Group(group_id="idle", state="EMPTY")
        brokers.refused = {"idle"}
        assert prober.look([ASKED], START_MS).readers == {"orders": {"billing"}}
        brokers.has("idle")
        assert prober.look([ASKED], START_MS).readers == {"orders": {"billing", "idle"}}
        assert brokers.asked["scan"] == 1


class TestWhatItAsks:
    def test_nothing_without_an_open_change_of_a_topic_of_this_cluster(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        finished = evolve(ASKED, state=State.CONVERGED)
        elsewhere = change(cluster_id="c-2")
        for changes in ([], [finished], [elsewhere]):
            probe = prober.look(changes, START_MS)
            assert (probe.readers, probe.writers, probe.groups) == ({}, {}, {})
        assert not brokers.asked

    def test_of_all_groups_once_and_then_only_of_those_concerned(
        self, brokers: Brokers, prober: GroupProber, clock: ManualClock
    ) -> None:
        for _ in range(5):
            prober.look([ASKED], START_MS)
        assert brokers.asked["scan"] == 1
        brokers.has("shipping")
        clock.advance(SCAN_EVERY_S)
        probe = prober.look([ASKED], START_MS)
        assert brokers.asked["scan"] == 2
        assert probe.readers == {"orders": {"billing", "shipping"}}

    def test_of_all_groups_at_once_for_a_topic_that_is_new_to_it(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        prober.look([ASKED], START_MS)
        other = evolve(ASKED, change_id="chg-2", spec=growth(topic="other"))
        probe = prober.look([ASKED, other], START_MS)
        assert brokers.asked["scan"] == 2
        assert probe.readers == {"orders": {"billing"}, "other": frozenset()}

    def test_of_all_groups_at_once_when_a_change_has_happened(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        prober.look([ASKED], START_MS)
        brokers.has("began-to-read-after-the-request")
        probe = prober.look([evolve(ASKED, state=State.GATED)], START_MS)
        assert probe.readers == {"orders": {"billing", "began-to-read-after-the-request"}}

    def test_it_does_not_say_what_it_does_not_know(self, brokers: Brokers, prober: GroupProber) -> None:
        brokers.writers = None
        brokers.groups_now["new"] = Group(
            group_id="new", state="PREPARING_REBALANCE", members=(Member(member_id="m"),)
        )
        probe = prober.look([ASKED], START_MS)
        assert (probe.readers, probe.writers) == ({}, {})

    def test_a_failure_is_told_and_the_next_look_asks_again(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.down = True
        with pytest.raises(MetadataFetchError):
            prober.look([ASKED], START_MS)
        brokers.down = False
        assert len(groups(prober)) == 1

    def test_a_topic_that_is_gone_has_nothing_to_be_said_of(
        self, brokers: Brokers, prober: GroupProber
    ) -> None:
        brokers.partitions = 0
        assert not groups(prober)
