"""Which records get a copy, and how many copies there may be."""

import pytest

from kafka_partition_events.clients.flight import copies as module
from kafka_partition_events.clients.flight.copies import BURST_S, LEAST_BURST, Copies, CopyBudget
from kafka_partition_events.clients.flight.record import RECORD_BYTES, Attempt, Record, RescuableRecord
from tests.threads_kit import together

TIME_OUT = TimeoutError("expired")


def record_of(value: bytes | None = b"v") -> RescuableRecord:
    return RescuableRecord(Record("t", value, headers=[("h", b"1")]), "id")


class Rig:
    """Copies of a producer whose clock stands still, and the latest attempt of each record."""

    def __init__(self) -> None:
        self.now = 0.0
        self.copies = Copies(clock=lambda: self.now)
        self.latest: dict[RescuableRecord, Attempt] = {}

    def admitted(self, *partitions: int, handle: int = 0) -> list[RescuableRecord]:
        records = [record_of() for _ in partitions]
        for record, partition in zip(records, partitions, strict=True):
            assert self.copies.admit(record)
            self.launch(record, partition, handle)
        return records

    def launch(self, record: RescuableRecord, partition: int, handle: int = 0) -> Attempt:
        attempt = self.latest[record] = Attempt("t", partition, handle, taken=True, rescuable=record)
        self.copies.launched(record, attempt)
        return attempt

    def times_out(
        self, record: RescuableRecord, attempt: Attempt | None = None, *, worth: bool = True
    ) -> bool:
        return self.copies.landed(record, attempt or self.latest[record], TIME_OUT, worth_a_copy=worth)

    def taken(self, count: int) -> list[RescuableRecord | None]:
        return [self.take() for _ in range(count)]

    def take(self) -> RescuableRecord | None:
        taken: list[RescuableRecord] = []
        self.copies.take(taken)
        return taken[0] if taken else None


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_what_is_stuck_is_copied_once_and_no_more_when_the_copy_is_elsewhere(rig: Rig) -> None:
    stuck, other, there = rig.admitted(0, 1, 0)
    where = {(0, "t", 0): 7}
    rig.copies.copy_stuck(where)
    rig.copies.copy_stuck(where)
    assert rig.taken(3) == [stuck, there, None]
    rig.launch(stuck, 1)
    rig.launch(there, 2)
    rig.copies.copy_stuck(where)
    assert rig.take() is None
    assert rig.copies.take_news() == {7: (2, 0)}
    rig.copies.copy_stuck({**where, (0, "t", 1): 8})  # now the first copy is stuck as well
    assert set(rig.taken(2)) == {stuck, other}


def test_what_has_its_copy_is_searched_no_more(rig: Rig) -> None:
    """It stays in flight until it times out, and each search would come across it."""
    _first, _second, other = rig.admitted(0, 0, 1)
    rig.copies.copy_stuck({(0, "t", 0): 7})
    assert rig.copies._uncopied == {(0, "t", 1): {other: None}}


def test_where_records_wait_and_none_is_tracked_the_oldest_is(rig: Rig) -> None:
    """The failure detector says only of places where it tracks one that what waits there is stuck."""
    oldest, second, _, tracked, _ = rig.admitted(0, 0, 0, 1, 1)
    rig.latest[tracked].tracked = True
    assert not rig.copies.overdue()
    rig.now = module.UNTRACKED_S
    assert rig.copies.overdue() == [rig.latest[oldest]]
    assert rig.copies.track(rig.latest[oldest])
    assert not rig.copies.track(rig.latest[oldest]), "two threads may have found it"
    rig.now *= 2
    assert not rig.copies.overdue()
    rig.times_out(oldest)
    assert not rig.copies.track(rig.latest[oldest])
    rig.now *= 2
    assert rig.copies.overdue() == [rig.latest[second]]


def test_an_error_is_the_outcome_of_the_last_attempt_only(rig: Rig) -> None:
    (record,) = rig.admitted(0)
    original = rig.latest[record]
    rig.copies.copy_stuck({(0, "t", 0): 7})
    assert rig.take() is record
    rig.launch(record, 1)
    assert not rig.times_out(record, original, worth=False)
    assert rig.times_out(record, worth=False)


def test_a_record_with_a_key_is_not_sent_again_by_itself(rig: Rig) -> None:
    record = RescuableRecord(Record("t", b"v", b"key", headers=[]), "id")
    rig.launch(record, 0)
    assert rig.times_out(record)
    assert not rig.copies.queue


def test_what_is_too_much_to_keep_goes_without_the_prospect_of_a_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", RECORD_BYTES + 210)
    copies = Copies()
    assert copies.admit(record_of(b"1234567"))
    assert not copies.admit(record_of(None)), "a record takes memory, however small it is"
    assert copies.stats.unheld == 1


# -- the budget --------------------------------------------------------------------------------------


def limit(monkeypatch: pytest.MonkeyPatch, burst: int, share: float = module.SHARE) -> None:
    monkeypatch.setattr(module, "BURST", burst)
    monkeypatch.setattr(module, "SHARE", share)


def test_what_is_beyond_the_limits_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 1, 0.5)
    rig = Rig()
    first, second, third = rig.admitted(0, 0, 0)
    rig.copies.copy_stuck({(0, "t", 0): 7})
    rig.copies.copy_stuck({(0, "t", 0): 7})
    assert rig.copies.take_news() == {7: (1, 2)}, "and it is reported once how many do"
    assert rig.taken(2) == [first, None]
    rig.admitted(1, 1)  # each record that is sent adds to the budget
    rig.copies.copy_stuck({(0, "t", 0): 7})
    assert rig.copies.take_news() == {7: (1, 0)}
    assert rig.taken(2) == [second, None]
    assert rig.times_out(third)
    assert rig.copies.stats.withheld == 1


def test_a_budget_that_runs_out_a_second_time_is_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, 1, 1e-9)
    rig = Rig()
    for _ in range(2):
        rig.admitted(0, 0)
        rig.copies.copy_stuck({(0, "t", 0): 7})
        assert rig.copies.take_news()[7][1] > 0
        rig.copies.copy_stuck({})


def spent(budget: CopyBudget) -> int:
    """Take all that there is; return how much that was."""
    count = 0
    while budget.allows():
        budget.take()
        count += 1
    return count


@pytest.mark.parametrize(("rate", "burst"), [(1, LEAST_BURST), (30, 150), (1_000, 5_000), (9_000, 10_000)])
def test_a_burst_is_no_more_than_what_was_sent_in_the_last_seconds(rate: int, burst: int) -> None:
    now = 0.0
    budget = CopyBudget(clock=lambda: now)
    for _ in range(int(4 * BURST_S) * rate):
        now += 1 / rate
        budget.record_sent()
    assert spent(budget) == pytest.approx(burst, rel=0.03)


def test_a_producer_that_slows_down_has_a_smaller_burst() -> None:
    now = 0.0
    budget = CopyBudget(clock=lambda: now)
    for _ in range(10_000):
        budget.record_sent()
    for _ in range(5):
        now += BURST_S
        budget.record_sent()
    assert spent(budget) == LEAST_BURST


def test_the_budget_is_never_overdrawn_by_threads() -> None:
    copies, counts = Copies(), list[int]()

    def fail_many() -> None:
        records = [record_of() for _ in range(30)]
        attempts = {record: Attempt("t", 0, 0) for record in records}
        for record, attempt in attempts.items():
            copies.launched(record, attempt)
        counts.append(
            sum(not copies.landed(*attempt, TIME_OUT, worth_a_copy=True) for attempt in attempts.items())
        )

    together(*[fail_many] * 8)
    assert sum(counts) == LEAST_BURST


def test_what_no_handle_has_taken_yet_gets_no_copy_as_it_may_be_refused(rig: Rig) -> None:
    (record,) = rig.admitted(0)
    rig.latest[record].taken = False
    rig.copies.copy_stuck({(0, "t", 0): 7})
    assert rig.take() is None
