"""Which records get a copy, and what the application hears of it: the account that both clients keep."""

import pytest

from kafka_partition_events.clients.held import HEADER_BYTES, RECORD_BYTES, Account, Held
from kafka_partition_events.clients.rescue import RescueLimits, RescueStats

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
    for partition in (0, 1):
        assert not account.failed(record, partition, TIME_OUT, worth_a_copy=True)
        assert account.take() is record
        account.place(record, partition + 1)
    assert account.failed(record, 2, TIME_OUT, worth_a_copy=True)
    assert (account.stats.copies, account.stats.withheld) == (2, 1)
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
