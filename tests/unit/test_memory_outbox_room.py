"""What an outbox in memory drops when a write is larger than the room: as if entry had come after entry."""

from collections.abc import Sequence

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events.outbox import Entry, MemoryOutbox, Stream, Write
from tests.outbox_kit import append, entry, ids

EVENTS, INCIDENTS = Stream.EVENTS, Stream.INCIDENTS


def test_is_durable_no_longer_than_its_process() -> None:
    assert not MemoryOutbox().durable


@pytest.mark.parametrize("at_once", [True, False])
def test_a_broker_loss_pushes_out_the_churn_before_it(at_once: bool) -> None:
    outbox = MemoryOutbox(10)
    outbox.subscribe("a", EVENTS)
    append(outbox, "s1", *(entry(f"old{n}", churn=True) for n in range(6)), "s2")
    outbox.write(Write(cursors={"a": 3}))
    loss = [entry(f"new{n}", churn=True) for n in range(7)]
    for batch in [loss] if at_once else [[each] for each in loss]:
        append(outbox, *batch)
    assert ids(outbox.history(EVENTS)) == ["s1", "old5", "s2", *(f"new{n}" for n in range(7))]
    assert outbox.stats("a").dropped == 3, "old2 to old4; the others had been read"
    assert outbox.entry("old0") is None
    append(outbox, entry("old0", churn=True))
    assert outbox.duplicates == 0


def test_a_write_larger_than_all_leaves_its_end() -> None:
    outbox = MemoryOutbox(3)
    append(
        outbox, "1", *(entry(f"c{n}", churn=True) for n in range(5)), "2", entry("i", stream=INCIDENTS), "3"
    )
    assert ids(outbox.history(EVENTS)) == ["2", "3"]
    assert ids(outbox.history(INCIDENTS)) == ["i"]
    append(outbox, entry("c", churn=True))
    assert ids(outbox.history(EVENTS)) == ["2", "3"], "churn goes first, even if it is the newest"


entries = st.lists(
    st.builds(
        lambda number, stream, churn: entry(str(number), stream=stream, churn=churn),
        st.integers(0, 40),
        st.sampled_from(Stream),
        st.booleans(),
    ),
    max_size=40,
)


@given(before=entries, batch=entries, room=st.integers(1, 12), cursor=st.integers(0, 20))
def test_one_write_drops_what_a_plain_list_would(
    before: Sequence[Entry], batch: Sequence[Entry], room: int, cursor: int
) -> None:
    outbox = MemoryOutbox(room)
    outbox.subscribe("a", EVENTS)
    kept: list[Entry] = []
    seq = dropped = 0
    for write in (before, batch):
        outbox.write(Write(entries=write, cursors={"a": cursor} if write is batch else {}))
        for each in write:
            if not any((k.stream, k.id) == (each.stream, each.id) for k in kept):
                seq += 1
                kept.append(evolve(each, seq=seq))
        while len(kept) > room:
            victim = next((k for k in kept if k.churn), kept[0])
            kept.remove(victim)
            read = write is batch and victim.seq <= cursor
            dropped += victim.stream is EVENTS and not read
    for stream in Stream:
        assert list(outbox.history(stream)) == [k for k in kept if k.stream is stream]
    assert outbox.stats("a").dropped == dropped
    assert all((found := outbox.entry(k.id)) is not None and found.id == k.id for k in kept)
