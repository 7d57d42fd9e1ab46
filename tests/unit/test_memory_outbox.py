"""The outbox in memory: bounded by numbers. What it has in common with the other one is in the contract."""

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import MemoryOutbox, Stream, Write
from kafka_partition_events.outbox.memory_outbox import MAX_VALUES
from tests.outbox_kit import append, entry, ids

EVENTS, INCIDENTS = Stream.EVENTS, Stream.INCIDENTS


def test_churn_goes_first_oldest_first_and_then_the_rest_of_both_streams() -> None:
    outbox = MemoryOutbox(4)
    append(outbox, "1", entry("c1", churn=True), entry("c2", churn=True, stream=INCIDENTS), "2", "3")
    assert ids(outbox.history(EVENTS)) == ["1", "2", "3"]
    assert ids(outbox.history(INCIDENTS)) == ["c2"]
    append(outbox, entry("i", stream=INCIDENTS), "4", "5")
    assert ids(outbox.history(EVENTS)) == ["3", "4", "5"]
    assert ids(outbox.history(INCIDENTS)) == ["i"]


def test_what_goes_is_counted_for_each_reader_that_has_not_read_it() -> None:
    outbox = MemoryOutbox(2)
    for reader, stream in (("done", EVENTS), ("behind", EVENTS), ("elsewhere", INCIDENTS)):
        outbox.subscribe(reader, stream)
    append(outbox, "1", "2")
    outbox.write(Write(cursors={"done": outbox.read("done", 1)[0].seq}))
    append(outbox, "3", "4")
    assert [outbox.stats(reader).dropped for reader in ("done", "behind", "elsewhere")] == [1, 2, 0]
    assert ids(outbox.read("done", 10)) == ids(outbox.read("behind", 10)) == ["3", "4"]


def test_what_went_gives_its_bytes_and_its_id_back() -> None:
    outbox = MemoryOutbox(1)
    append(outbox, entry("1", body=b"x" * 100))
    append(outbox, entry("2", body=b"x" * 10))
    assert outbox.size_bytes == 10
    append(outbox, "1")
    assert (outbox.duplicates, ids(outbox.history(EVENTS))) == (0, ["1"])


def test_of_too_many_values_those_written_last_are_kept() -> None:
    outbox = MemoryOutbox()
    outbox.write(Write(values={f"v{number}": b"" for number in range(MAX_VALUES)}))
    outbox.write(Write(values={"v0": b"again", "new": b""}))
    kept = outbox.values("")
    assert len(kept) == MAX_VALUES
    assert "v0" in kept
    assert "new" in kept
    assert "v1" not in kept


def test_there_must_be_room_for_an_entry() -> None:
    with pytest.raises(ConfigurationError, match="max_entries must be at least 1, not 0"):
        MemoryOutbox(0)
