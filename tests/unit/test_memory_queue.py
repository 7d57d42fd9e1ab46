"""The queue in memory: bounded by a number. What it has in common with a journal is in the contract."""

from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import Entry, MemoryQueue, Stream, Write
from tests.outbox_kit import append, entry, ids

EVENTS, INCIDENTS = Stream.EVENTS, Stream.INCIDENTS


def queue_of(room: int, *readers: str) -> MemoryQueue:
    queue = MemoryQueue(room)
    for reader in readers or ("a",):
        queue.subscribe(reader, EVENTS)
    return queue


@pytest.mark.parametrize("at_once", [True, False])
def test_a_broker_loss_pushes_out_the_churn_before_it(at_once: bool) -> None:
    queue = queue_of(10)
    append(queue, "s1", *(entry(f"old{n}", churn=True) for n in range(6)), "s2")
    queue.write(Write(cursors={"a": 3}))
    loss = [entry(f"new{n}", churn=True) for n in range(9)]
    for batch in [loss] if at_once else [[each] for each in loss]:
        append(queue, *batch)
    assert ids(queue.read("a", 99)) == ["s2", *(f"new{n}" for n in range(9))]
    assert queue.stats("a").dropped == 4, "old2 to old5; the others had been read"


def test_a_write_larger_than_all_leaves_its_end() -> None:
    queue = queue_of(3)
    append(queue, "1", *(entry(f"c{n}", churn=True) for n in range(5)), "2", "3", "4")
    assert ids(queue.read("a", 99)) == ["2", "3", "4"]
    append(queue, entry("c", churn=True))
    assert ids(queue.read("a", 99)) == ["2", "3", "4"], "churn goes first, even if it is the newest"


def test_what_goes_is_counted_for_each_reader_that_has_not_read_it() -> None:
    queue = queue_of(2, "done", "behind")
    queue.subscribe("elsewhere", INCIDENTS)
    append(queue, "1", "2")
    queue.write(Write(cursors={"done": queue.read("done", 1)[0].seq}))
    append(queue, "3", "4")
    assert [queue.stats(reader).dropped for reader in ("done", "behind", "elsewhere")] == [1, 2, 0]
    assert ids(queue.read("done", 10)) == ids(queue.read("behind", 10)) == ["3", "4"]


def test_what_was_read_or_went_gives_its_id_back() -> None:
    queue = queue_of(1)
    append(queue, "1")
    append(queue, "2")
    append(queue, "1")
    assert ids(queue.read("a", 10)) == ["1"]
    queue.refuse("a", queue.read("a", 1)[0], "x")
    append(queue, "1")
    assert ids(queue.read("a", 10)) == ["1"]


def test_it_has_room_for_an_entry_and_none_for_small_states() -> None:
    with pytest.raises(ConfigurationError, match="max_entries must be at least 1, not 0"):
        MemoryQueue(0)
    with pytest.raises(ConfigurationError, match="no small states"):
        MemoryQueue().write(Write(values={"v": b"1"}))


entries = st.lists(
    st.builds(lambda number, churn: entry(str(number), churn=churn), st.integers(0, 40), st.booleans()),
    max_size=40,
)


@given(before=entries, batch=entries, room=st.integers(1, 12), cursor=st.integers(0, 20))
def test_one_write_drops_what_a_plain_list_would(
    before: Sequence[Entry], batch: Sequence[Entry], room: int, cursor: int
) -> None:
    queue = queue_of(room)
    kept: list[Entry] = []
    seq = dropped = 0
    for write in (before, batch):
        done = cursor if write is batch else 0
        queue.write(Write(entries=write, cursors={"a": done}))
        for each in write:
            if each.id not in {k.id for k in kept}:
                seq += 1
                kept.append(evolve(each, seq=seq))
        while kept and kept[0].seq <= done:
            kept.pop(0)
        while len(kept) > room:
            victim = next((k for k in kept if k.churn), kept[0])
            kept.remove(victim)
            dropped += victim.seq > done
    assert queue.read("a", 99) == [k for k in kept if k.seq > cursor]
    assert queue.stats("a").dropped == dropped
