"""Which records get a copy, and what the application hears of it: the engine that both clients share."""

import threading
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import define, field

from kafka_partition_events import DefaultPartitioner, Event, RecordsRescued
from kafka_partition_events.clients.held import HEADER_BYTES, RECORD_BYTES, Account, Engine, Held
from kafka_partition_events.clients.reports import ProducerReports, Stuck
from kafka_partition_events.clients.rescue import (
    ATTEMPT_HEADER,
    ID_HEADER,
    PARTITION_HEADER,
    RescueLimits,
    RescueStats,
)
from kafka_partition_events.testing.scripted import cluster_of

TIME_OUT = TimeoutError("expired")


def held(partition: int = 0, data: bytes | None = b"v", topic: str = "t") -> Held:
    return Held(
        topic=topic, data=data, headers=[("h", b"1")], timestamp_ms=0, id="id", home=partition, outcome=None
    )


def admitted(account: Account, *partitions: int) -> list[Held]:
    records = [held(partition) for partition in partitions]
    for record, partition in zip(records, partitions, strict=True):
        assert account.admit(record)
        account.place(record, partition)
    return records


@pytest.fixture
def account() -> Account:
    return Account(RescueLimits())


def test_a_record_that_arrives_is_let_go(account: Account) -> None:
    (record,) = admitted(account, 3)
    assert account.stats.held_bytes == RECORD_BYTES + len(b"v") + HEADER_BYTES + len("h") + len(b"1")
    assert account.delivered(record, 3)
    account.settled(record)
    assert account.stats == RescueStats()
    assert not account.any_open()
    assert not account._placed


def test_a_record_that_times_out_gets_a_copy_and_one_outcome(account: Account) -> None:
    (record,) = admitted(account, 0)
    assert not account.failed(record, 0, TIME_OUT, worth_a_copy=True)
    assert account.take() is record
    account.place(record, 1)
    assert account.take() is None
    assert account.delivered(record, 1)
    account.settled(record)
    assert (account.stats.copies, account.stats.saved) == (1, 1)
    assert account.take_news() == {None: (1, 0)}
    assert account.take_news() == {}


def test_what_copies_saved_is_told_by_topic(account: Account) -> None:
    for topic in ("a", "b", "b"):
        record = held(0, topic=topic)
        assert account.admit(record)
        account.place(record, 0)
        account.failed(record, 0, TIME_OUT, worth_a_copy=True)
        assert account.take() is record
        account.place(record, 1)
        assert account.delivered(record, 1)
    assert account.saved() == {"a": 1, "b": 2}
    assert account.stats.saved == 3


def test_an_error_that_a_copy_would_not_mend_is_the_outcome(account: Account) -> None:
    (record,) = admitted(account, 0)
    assert account.failed(record, 0, ValueError(), worth_a_copy=False)
    assert account.take() is None


def test_the_attempts_come_to_an_end(account: Account) -> None:
    (record,) = admitted(account, 0)
    for partition in (0, 1, 2):
        assert not account.failed(record, partition, TIME_OUT, worth_a_copy=True)
        assert account.take() is record
        account.place(record, partition + 1)
    assert account.failed(record, 3, TIME_OUT, worth_a_copy=True)
    assert (account.stats.copies, account.stats.withheld) == (3, 1)
    assert record.error is TIME_OUT


def test_what_is_stuck_is_copied_once_and_no_more_when_the_copy_is_elsewhere(account: Account) -> None:
    stuck, other, there = admitted(account, 0, 1, 0)
    where = {(0, "t", 0): 7}
    account.hedge(where)
    account.hedge(where)
    taken = [account.take(), account.take()]
    assert taken == [stuck, there]
    assert account.take() is None
    account.place(stuck, 1)
    account.place(there, 2)
    account.hedge(where)
    assert account.take() is None
    assert account.take_news() == {7: (2, 0)}
    account.hedge({**where, (0, "t", 1): 8})  # now the first copy is stuck as well
    assert {account.take(), account.take()} == {stuck, other}


def test_the_first_to_arrive_is_the_outcome(account: Account) -> None:
    (record,) = admitted(account, 0)
    account.hedge({(0, "t", 0): 7})
    account.take()
    account.place(record, 1)
    assert account.delivered(record, 1)
    assert not account.delivered(record, 0)
    assert account.stats.saved == 1


def test_a_record_fails_only_with_the_last_of_it(account: Account) -> None:
    (record,) = admitted(account, 0)
    account.hedge({(0, "t", 0): 7})
    assert not account.failed(record, 0, TIME_OUT, worth_a_copy=False)  # its copy is queued
    assert account.take() is record
    account.place(record, 1)
    assert account.failed(record, 1, TIME_OUT, worth_a_copy=False)


def test_a_record_that_arrives_while_it_is_queued_is_not_copied(account: Account) -> None:
    (record,) = admitted(account, 0)
    account.hedge({(0, "t", 0): 7})
    assert account.delivered(record, 0)
    assert account.take() is None


def test_a_copy_that_the_client_refuses_ends_the_record_with_its_own_error(account: Account) -> None:
    failed, stuck = admitted(account, 0, 1)
    account.failed(failed, 0, TIME_OUT, worth_a_copy=True)
    account.hedge({(0, "t", 1): 7})
    assert account.take() is failed
    assert account.refused(failed, RuntimeError("closed"))
    assert failed.error is TIME_OUT
    assert account.take() is stuck
    assert not account.refused(stuck, RuntimeError("closed"))  # the original may still arrive
    assert account.delivered(stuck, 1)


def test_what_is_beyond_the_limits_waits_for_its_turn() -> None:
    account = Account(RescueLimits(burst=1, share=0.5))
    first, second, third = admitted(account, 0, 0, 0)
    account.hedge({(0, "t", 0): 7})
    account.hedge({(0, "t", 0): 7})
    assert account.take_news() == {7: (1, 2)}, "and it is told once how many do"
    assert [account.take(), account.take()] == [first, None]
    admitted(account, 1, 1)  # each record that is sent adds to the budget
    account.hedge({(0, "t", 0): 7})
    assert account.take_news() == {7: (1, 0)}
    assert [account.take(), account.take()] == [second, None]
    assert account.failed(third, 0, TIME_OUT, worth_a_copy=True)
    assert account.stats.withheld == 1


def test_who_runs_out_of_budget_a_second_time_is_told_so_again() -> None:
    account = Account(RescueLimits(burst=1, share=1e-9))
    for _ in range(2):
        admitted(account, 0, 0)
        account.hedge({(0, "t", 0): 7})
        assert account.take_news()[7][1] > 0
        account.hedge({})


def test_what_has_its_copy_is_looked_at_no_more(account: Account) -> None:
    """It stays on its way until it times out, and each look would come across it."""
    _first, _second, other = admitted(account, 0, 0, 1)
    account.hedge({(0, "t", 0): 7})
    assert account._placed == {(0, "t", 1): {other: None}}


def test_what_is_stuck_on_one_way_is_not_on_the_other(account: Account) -> None:
    (here,), there = admitted(account, 0), held()
    assert account.admit(there)
    account.place(there, 0, way=1)
    account.hedge({(0, "t", 0): 7})
    assert [account.take(), account.take()] == [here, None]


def test_what_is_too_much_to_keep_is_not_held() -> None:
    account = Account(RescueLimits(held_bytes=RECORD_BYTES + 210))
    assert account.admit(held(data=b"1234567"))
    assert not account.admit(held(data=None)), "a record takes memory, however small it is"
    assert account.stats.unheld == 1


def test_nothing_is_copied_any_more_after_the_end(account: Account) -> None:
    (record,) = admitted(account, 0)
    account.closed = True
    assert account.failed(record, 0, TIME_OUT, worth_a_copy=True)
    assert not account.admit(held())


def test_waiting_ends_with_the_last_of_mine(account: Account) -> None:
    mine, _later = admitted(account, 0, 1)
    assert not account.wait_for([mine], 0)
    account.settled(mine)
    assert account.wait_for([mine], 0)


def test_a_copy_that_finds_no_room_is_the_next_one_again(account: Account) -> None:
    first, second = admitted(account, 0, 1)
    account.hedge({(0, "t", 0): 7, (0, "t", 1): 7})
    assert account.take() is first
    account.place(first, 2)
    account.unplace(first, 2)
    account.put_back(first)
    assert account.stats.copies == 0
    assert [account.take(), account.take()] == [first, second]


def test_a_first_attempt_that_the_client_refuses_leaves_nothing_behind(account: Account) -> None:
    (record,) = admitted(account, 0)
    account.unplace(record, 0)
    account.settled(record)
    assert account.stats == RescueStats()
    assert not account._placed
    assert not account.any_open()


def test_a_record_that_the_client_placed_itself_is_not_saved_by_arriving(account: Account) -> None:
    record = Held(topic="t", data=b"v", headers=[], timestamp_ms=0, id="id", home=None, outcome=None)
    assert account.admit(record)
    account.place(record, -1)
    assert account.delivered(record, -1)
    assert account.stats.saved == 0


# -- the budget --------------------------------------------------------------------------------------


def copies(account: Account, count: int) -> int:
    """Return how many of so many records that time out get a copy; none of them adds to the budget."""
    records = [held() for _ in range(count)]
    return sum(not account.failed(record, 0, TIME_OUT, worth_a_copy=True) for record in records)


def test_the_budget_begins_with_a_whole_burst_and_each_record_adds_its_share() -> None:
    account = Account(RescueLimits(burst=5, share=0.25))
    assert copies(account, 9) == 5
    for count, allowed in [(3, 0), (1, 1), (100, 5)]:  # it holds a burst at most
        admitted(account, *[0] * count)
        assert copies(account, 9) == allowed


def test_the_budget_is_never_overdrawn_by_threads() -> None:
    account, counts = Account(RescueLimits(burst=1000)), list[int]()
    threads = [threading.Thread(target=lambda: counts.append(copies(account, 300))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 1000


# -- the engine --------------------------------------------------------------------------------------


@define
class FakeReports(ProducerReports):
    where: dict[tuple[int, str, int], int | None] = field(factory=dict)
    events: list[Event] = field(factory=list)
    looks: int = 0

    def stuck(self) -> Stuck:
        self.looks += 1
        return self.where

    def emit(self, events: Iterable[Event]) -> None:
        self.events += events


class FullError(Exception):
    pass


class FakeRescue(Engine):
    """Tells into a list, and sends to partition 1 unless it is told to raise."""

    no_room = (FullError,)

    def __init__(self, mode: Any = "hedge") -> None:
        self.reports = FakeReports()
        super().__init__(mode, RescueLimits(), self.reports)
        self.told: list[tuple[str, Any]] = []
        self.raises: BaseException | None = None

    def _tell(self, held: Held, arrived: Any) -> None:
        self.told.append((held.id, held.error if arrived is None else arrived))

    def send(self, held: Held) -> None:
        if self.raises is not None:
            raise self.raises
        self.account.place(held, 1)

    def timed_out(self) -> Held:
        (record,) = admitted(self.account, 0)
        assert not self.failed(record, 0, 0, TIME_OUT, worth_a_copy=True)
        return record


def test_ids_are_the_producers_own_and_each_records_own() -> None:
    first, second = FakeRescue(), FakeRescue()
    ids = [first.new_id(), first.new_id(), second.new_id()]
    assert len(set(ids)) == 3
    prefixes = [id_.split("-")[0] for id_ in ids]
    assert prefixes[0] == prefixes[1] != prefixes[2]
    assert len(prefixes[0]) == 16


def test_a_copy_says_where_the_original_went_and_which_attempt_it_is() -> None:
    rescue, record = FakeRescue(), held(3)
    original = [("h", b"1"), (ID_HEADER, b"id")]
    assert rescue.headers(record) == original
    rescue.account.admit(record)
    rescue.account.place(record, 3)
    assert rescue.headers(record) == [*original, (PARTITION_HEADER, b"3"), (ATTEMPT_HEADER, b"2")]
    record.home = None  # nobody knows
    assert (PARTITION_HEADER, b"-1") in rescue.headers(record)


def test_a_copy_that_arrives_is_told_once_and_listeners_hear_of_it() -> None:
    rescue = FakeRescue()
    record = rescue.timed_out()
    rescue.drain(rescue.send)
    rescue.drain(rescue.send)
    assert [(e.copies, e.withheld) for e in rescue.reports.events if isinstance(e, RecordsRescued)] == [
        (1, 0)
    ]
    rescue.delivered(record, 1, 0, "metadata")
    rescue.delivered(record, 0, 0, "too late")
    assert rescue.told == [("id", "metadata")]
    assert not rescue.account.any_open()


def test_a_copy_that_cannot_be_sent_leaves_the_outcome_that_the_record_had() -> None:
    rescue = FakeRescue()
    rescue.timed_out()
    rescue.raises = ValueError("the application's chooser")
    rescue.drain(rescue.send)
    assert rescue.told == [("id", TIME_OUT)]
    assert (rescue.account.waiting, rescue.account.stats.held_bytes) == (0, 0)


def test_a_copy_that_is_being_sent_is_still_waited_for() -> None:
    """`flush` may look from another thread in that moment: the copy is in nobody's queue."""
    rescue = FakeRescue()
    rescue.timed_out()
    waiting = []

    def send(held: Held) -> None:
        waiting.append(rescue.account.waiting)
        rescue.send(held)

    rescue.drain(send)
    assert (waiting, rescue.account.waiting) == ([1], 0)


def test_a_copy_without_room_waits_for_it() -> None:
    rescue = FakeRescue()
    rescue.timed_out()
    rescue.raises = FullError()
    rescue.drain(rescue.send)
    assert (rescue.told, rescue.account.waiting) == ([], 1)
    rescue.raises = None
    rescue.drain(rescue.send)
    assert rescue.account.waiting == 0


@pytest.mark.parametrize("sent", [False, True])
def test_a_signal_loses_no_copy_and_makes_none_twice(sent: bool) -> None:
    rescue = FakeRescue()
    record = rescue.timed_out()

    def interrupted(held: Held) -> None:
        if sent:
            rescue.send(held)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rescue.drain(interrupted)
    assert rescue.account.waiting == (not sent)
    rescue.drain(rescue.send)
    rescue.delivered(record, 1, 0, "metadata")
    assert (rescue.told, rescue.account.waiting, rescue.account.stats.copies) == ([("id", "metadata")], 0, 1)


def test_an_application_that_raises_when_it_is_told_keeps_nothing() -> None:
    class Raising(FakeRescue):
        def _tell(self, held: Held, arrived: Any) -> None:
            raise ZeroDivisionError

    rescue = Raising()
    (record,) = admitted(rescue.account, 0)
    with pytest.raises(ZeroDivisionError):
        rescue.delivered(record, 0, 0, "metadata")
    assert not rescue.account.any_open()


@pytest.mark.parametrize(("mode", "copied"), [("failed", 0), ("hedge", 1)])
def test_what_is_stuck_is_hedged_where_a_copy_would_not_be(mode: str, copied: int) -> None:
    rescue, partitioner = FakeRescue(mode), DefaultPartitioner()
    partitioner.adopt(cluster_of({"t": [1, 2, 3]}, brokers=[1, 2, 3]))
    admitted(rescue.account, 0)
    rescue.reports.where = {(0, "t", 0): 1, (0, "unknown", 0): 1}
    rescue.hedge(partitioner.route)
    assert rescue.account.waiting == copied


def test_what_is_stuck_is_looked_for_each_5_ms_however_often_the_application_polls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rescue, clock = FakeRescue("hedge"), iter((10.0, 10.004, 10.006))
    monkeypatch.setattr("kafka_partition_events.clients.held.time.monotonic", lambda: next(clock))
    seen = []
    for _ in range(3):
        rescue.hedge(lambda _topic: None)
        seen.append(rescue.reports.looks)
    assert seen == [1, 1, 2]
