"""What `OrderedConsumer` hands out, and when; on partitions in memory."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.flight.rescue import ID_HEADER
from kafka_partition_events.clients.ordered.order import EnquiryAnswer, NextRecord, Order, Question, RecentIds
from kafka_partition_events.testing import ManualClock
from tests.ordered_kit import TOPIC, Group, Member, Message, Partition, Plain, headers, in_memory, values


@pytest.fixture
def group(clock: ManualClock) -> Iterator[Group]:
    made = Group([Partition() for _ in range(3)], clock)
    with in_memory(made):
        yield made


def reader(group: Group, *partitions: int, **config: Any) -> Member:
    made = Member({"group": group, **config})
    made.subscribe([TOPIC])
    made.target = set(partitions)
    return made


def polled(member: Member, times: int = 10) -> list[Any]:
    return values([message for _ in range(times) if (message := member.poll(0)) is not None])


def place(partition: int, offset: int = -1001) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


class TestWaiting:
    def test_others_are_asked_every_100_ms_and_only_while_something_waits(
        self, group: Group, clock: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Question] = []
        ask = group.ask

        def counted(_group: Group, question: Question) -> EnquiryAnswer:
            asked.append(question)
            return ask(question)

        monkeypatch.setattr(Group, "ask", counted)
        member = reader(group, 0)
        polled(member)
        assert asked == []
        group.partitions[0].append("waits", headers({1: 0}))
        for _ in range(40):
            member.poll(0)
            clock.advance(0.01)
        assert 3 <= len(asked) <= 4

    def test_a_partition_that_waits_long_is_paused_and_resumed(self, group: Group) -> None:
        member = reader(group, 0)
        group.partitions[0].append("waits", headers({1: 0}))
        for number in range(200):
            group.partitions[0].append(number)
        polled(member, 300)
        assert member.paused == {0}
        assert member.positions[0] <= 102
        group.committed[1] = 1
        group.clock.advance(0.1)
        assert polled(member, 300) == ["waits", *range(200)]
        assert member.paused == set()

    def test_nothing_blocks_longer_than_it_may(self, group: Group, clock: Any) -> None:
        member = reader(group, 0)
        group.partitions[0].append("waits", headers({1: 0}))
        assert member.poll(0.5) is None
        assert clock.monotonic() == pytest.approx(0.5, abs=0.021)

    def test_a_transaction_marker_at_the_end_is_passed(self, group: Group) -> None:
        """Offset 5 holds no record; that the partition ends at 6 says that 5 is behind us."""
        member = reader(group, 0, 1)
        group.partitions[1] = Partition(begin=6)
        group.partitions[0].append("second", headers({1: 5}))
        assert polled(member) == ["second"]


class TestGone:
    @pytest.mark.parametrize("named", [1, 77], ids=["truncated", "no such partition"])
    def test_what_is_beyond_the_end_counts_after_45_s(self, group: Group, clock: Any, named: int) -> None:
        group.partitions[0].append("second", headers({named: 9}))
        member = reader(group, 0)
        for _ in range(44):
            clock.advance(1.0)
            assert polled(member, 3) == []
        for _ in range(10):
            clock.advance(1.0)
            if polled(member, 3):
                return
        pytest.fail("waits for what is gone")

    def test_the_45_s_are_those_of_each_record(self) -> None:
        """What a log lacked for a moment an hour ago says nothing of what it lacks now."""
        order, log, here = Order(300.0), (TOPIC, 1), (TOPIC, 0)
        assert order.judge(here, 0, headers({1: 100}), 0.0) is NextRecord.WAIT
        order.learn(Question(1.0, (), log), EnquiryAnswer({}, (0, 100)))
        order.reached(log, 101)
        order.settle()
        assert order.judge(here, 0, headers({1: 100}), 2.0) is NextRecord.GIVE
        assert order.judge(here, 1, headers({1: 5_000}), 3_600.0) is NextRecord.WAIT
        order.learn(Question(3_601.0, (), log), EnquiryAnswer({}, (0, 4_000)))
        assert order.judge(here, 1, headers({1: 5_000}), 3_602.0) is NextRecord.WAIT


class TestLongWaits:
    def test_are_delivered_and_logged(self, group: Group, clock: Any, caplog: Any) -> None:
        member = reader(group, 0, **{"ordered.max.wait.ms": 5_000})
        group.partitions[0].append("waits", headers({1: 7, 2: 8}))
        group.partitions[1].records = group.partitions[2].records = [("elsewhere", None)] * 9
        assert polled(member) == []
        clock.advance(5.0)
        assert polled(member) == ["waits"]
        assert "record 0 of partition 0 of orders has waited 5 s" in caplog.text
        assert "1:7, 2:8" in caplog.text

    def test_what_is_gone_counts_after_45_s_where_each_30_s_raise(self, group: Group, clock: Any) -> None:
        config = {"ordered.max.wait.ms": 30_000, "ordered.on.timeout": "raise"}
        group.partitions[0].append("second", headers({1: 9}))
        member, found, raised = reader(group, 0, **config), list[Any](), 0
        for _ in range(60):
            clock.advance(1.0)
            try:
                found += polled(member, 3)
            except KafkaException:
                raised += 1
        assert (found, raised) == (["second"], 1)

    def test_raise_where_that_is_chosen_and_wait_again(self, group: Group, clock: Any) -> None:
        member = reader(group, 0, **{"ordered.max.wait.ms": 5_000, "ordered.on.timeout": "raise"})
        group.partitions[0].append("waits", headers({1: 7}))
        group.partitions[1].records = [("elsewhere", None)] * 9
        polled(member)
        clock.advance(5.0)
        with pytest.raises(KafkaException, match="has waited 5 s") as caught:
            polled(member)
        assert caught.value.args[0].code() == KafkaError._TIMED_OUT
        assert polled(member) == []
        group.committed[1] = 8
        clock.advance(0.2)
        assert polled(member) == ["waits"]

    def test_another_ending_is_refused(self, group: Group) -> None:
        with pytest.raises(ConfigurationError, match="deliver, raise"):
            reader(group, **{"ordered.on.timeout": "skip"})

    def test_the_settings_are_not_librdkafkas(self, group: Group) -> None:
        member = reader(group, **{"ordered.max.wait.ms": 5_000, "ordered.on.timeout": "raise"})
        assert not [name for name in member.config if name.startswith("ordered.")]
        assert member.config["enable.auto.offset.store"] is False


class TestCopies:
    def test_wait_for_their_original_also_when_both_are_read_again(self) -> None:
        """Else what follows a copy could be handed out before the original."""
        order, first, second = Order(300.0), (TOPIC, 1), (TOPIC, 2)
        named = [(ID_HEADER, b"id")]
        for _ in range(2):
            order.starts(first, 5)
            order.starts(second, 9)
            assert order.judge(first, 5, named, 0.0) is NextRecord.GIVE
            assert order.judge(second, 9, named, 0.0) is NextRecord.WAIT, "it is not processed yet"
            order.settle()
            assert order.judge(second, 9, named, 0.0) is NextRecord.DROP
            assert order.judge(second, 10, (), 0.0) is NextRecord.GIVE
            order.settle()

    def test_a_copy_does_not_wait_for_what_is_behind_it(self) -> None:
        """Read from the middle on, and then from the beginning: the later one was handed out first."""
        order, here = Order(300.0), (TOPIC, 1)
        named = [(ID_HEADER, b"id")]
        assert order.judge(here, 20, named, 0.0) is NextRecord.GIVE
        order.settle()
        order.starts(here, 10)
        assert order.judge(here, 10, named, 0.0) is NextRecord.GIVE

    def test_are_known_after_a_rebalance_too(self) -> None:
        order, first, second = Order(300.0), (TOPIC, 1), (TOPIC, 2)
        named = [(ID_HEADER, b"id")]
        assert order.judge(second, 9, named, 0.0) is NextRecord.GIVE
        order.settle()
        order.forget([first, second])
        order.starts(first, None)
        order.starts(second, None)
        order.learn(Question(1.0, (second,), None), EnquiryAnswer({second: 10}))
        assert order.judge(first, 5, named, 2.0) is NextRecord.DROP

    def test_one_that_waits_for_long_is_dropped_all_the_same(self) -> None:
        order, first, second = Order(300.0), (TOPIC, 1), (TOPIC, 2)
        named = [(ID_HEADER, b"id")]
        order.judge(first, 5, named, 0.0)
        assert order.judge(second, 9, named, 0.0) is NextRecord.WAIT
        order._ids = RecentIds()  # it has forgotten the original
        order.settle()
        assert order.judge(second, 9, named, 0.0) is NextRecord.DROP

    def test_ids_are_remembered_within_bounds(self) -> None:
        ids = RecentIds(remembered=10)
        for number in range(100):
            ids.add(b"%d" % number, (TOPIC, 0), number)
        assert all(ids.original(b"%d" % number, (TOPIC, 1), 0) for number in range(90, 100))
        assert ids.original(b"70", (TOPIC, 1), 0) is None


class TestOffsets:
    def test_position_is_after_what_was_handed_out(self, group: Group) -> None:
        member = reader(group, 0, 2)
        group.partitions[0].append("waits", headers({1: 0}))
        group.partitions[2].append("goes on")
        polled(member)
        assert [each.offset for each in member.position([place(0), place(2)])] == [0, 1]

    def test_are_the_applications_where_it_stores_them_itself(self, group: Group) -> None:
        member = reader(group, 0, **{"enable.auto.offset.store": "false"})
        group.partitions[0].append("one")
        polled(member)
        assert member.stored == {}

    def test_close_counts_what_was_handed_out_last(self, group: Group) -> None:
        member = reader(group, 0)
        group.partitions[0].append("one")
        assert member.poll(0) is not None
        member.close()
        assert group.committed == {0: 1}

    @pytest.mark.parametrize(
        ("args", "kwargs", "counts"),
        [
            ((), {}, True),
            ((), {"asynchronous": False}, True),
            ((), {"message": None, "offsets": None}, True),
            ((None,), {}, True),
            ((None, None, False), {}, True),
            (("message",), {}, False),
            ((), {"offsets": ["offset"]}, False),
        ],
    )
    def test_so_does_a_commit_that_names_nothing(
        self, group: Group, monkeypatch: pytest.MonkeyPatch, args: Any, kwargs: Any, counts: bool
    ) -> None:
        monkeypatch.setattr(Plain, "commit", lambda member, *_a, **_k: member._commit({0}) or ["theirs"])
        member = reader(group, 0)
        group.partitions[0].append("one")
        assert member.poll(0) is not None
        assert member.commit(*args, **kwargs) == ["theirs"]
        assert group.committed == ({0: 1} if counts else {})

    def test_come_every_100_ms_while_keys_move(self, group: Group, clock: Any) -> None:
        def commits(**config: Any) -> int:
            member = reader(group, 0, 1, **config)
            for _ in range(10):
                group.partitions[0].append("x", headers({1: 0}))
                polled(member, 2)
                clock.advance(0.05)
            member.close()
            return member.calls.count("commit")

        group.partitions[1].append("first")
        assert 4 <= commits() <= 6
        assert commits(**{"auto.commit.interval.ms": 5_000}) == 0
        assert commits(**{"enable.auto.commit": False}) == 0


class TestAsAPlainConsumer:
    def test_both_pauses_hold(self, group: Group, clock: Any) -> None:
        member = reader(group, 0)
        group.partitions[0].append("waits", headers({1: 0}))
        polled(member)
        member.pause([place(0)])
        group.committed[1] = 1
        clock.advance(0.2)
        assert polled(member) == []
        member.resume([place(0)])
        assert polled(member) == ["waits"]

    def test_resume_does_not_end_a_wait(self, group: Group) -> None:
        member = reader(group, 0)
        for number in range(200):
            group.partitions[0].append(number, headers({1: 0}))
        polled(member, 150)
        member.pause([place(0)])
        member.resume([place(0)])
        assert member.paused == {0}
        assert polled(member) == []

    def test_close_is_idempotent(self, group: Group) -> None:
        with reader(group, 0) as member:
            member.close()

    def test_seek_drops_what_waits(self, group: Group) -> None:
        member = reader(group, 0)
        group.partitions[0].append("waits", headers({1: 0}))
        group.partitions[0].append("next")
        polled(member)
        member.seek(place(0, 1))
        assert polled(member) == ["next"]

    def test_a_replay_from_the_beginning_is_in_order_too(self, group: Group) -> None:
        member = reader(group, 0, 1)
        group.partitions[0].append("second", headers({1: 0}))
        group.partitions[1].append("first")
        assert polled(member) == ["first", "second"]
        member.commit()
        member.assign([place(0, OFFSET_BEGINNING), place(1, OFFSET_BEGINNING)])
        assert polled(member) == ["first", "second"]

    @pytest.mark.parametrize("wanted", [True, False])
    def test_ends_of_partitions_come_where_they_are_wanted(self, group: Group, wanted: bool) -> None:
        member = reader(group, 0, **{"enable.partition.eof": wanted})
        group.partitions[0].append("one")
        messages = [message for _ in range(5) if (message := member.poll(0)) is not None]
        assert [message.error() is not None for message in messages] == [False, True][: 1 + wanted]

    def test_errors_pass(self, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
        error: Any = Message(0, 0, failure=KafkaError(KafkaError._ALL_BROKERS_DOWN))
        monkeypatch.setattr(Plain, "consume", lambda *_: [error])
        assert reader(group, 0).poll(0) is error
