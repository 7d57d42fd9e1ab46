"""An entry whose body is made when somebody asks for it is as good as one that has it."""

from collections.abc import Callable
from pathlib import Path

from attrs import evolve

from kafka_partition_events.outbox import Entry, MemoryOutbox, SqliteOutbox, Stream
from tests.outbox_kit import NOW, append, entry


class Body:
    """Makes a body, and counts how often."""

    def __init__(self, body: bytes = b"{}") -> None:
        self.body = body
        self.times = 0

    def __call__(self) -> bytes:
        self.times += 1
        return self.body


def put_off(body: Callable[[], bytes]) -> Entry:
    return Entry(id="1", name="n", key="k", severity=9, churn=True, at=NOW, recorded_at=NOW, body=body)


def test_a_body_is_made_once_when_it_is_asked_for() -> None:
    body = Body(b"abc")
    late = put_off(body)
    assert (late.made_bytes, body.times) == (0, 0)
    assert (late.body, late.body) == (b"abc", b"abc")
    assert (late.made_bytes, body.times) == (3, 1)


def test_a_body_that_is_given_is_there() -> None:
    assert (entry("1", body=b"abc").body, entry("1", body=b"abc").made_bytes) == (b"abc", 3)


def test_two_entries_are_equal_however_their_bodies_came() -> None:
    late = put_off(Body(b"abc"))
    early = evolve(late, body=b"abc")
    assert late == early
    assert hash(late) == hash(early)
    assert put_off(Body(b"abc")) != put_off(Body(b"abd"))


def test_an_entry_gets_its_place_and_keeps_all_else() -> None:
    full = evolve(entry("1", churn=True, body=b"abc"), stream=Stream.INCIDENTS)
    assert full.placed(7) == evolve(full, seq=7)
    body = Body()
    assert put_off(body).placed(7).seq == 7
    assert body.times == 0


def test_an_outbox_in_memory_makes_no_body_that_nobody_reads() -> None:
    outbox, bodies = MemoryOutbox(3), [Body() for _ in range(8)]
    outbox.subscribe("a", Stream.EVENTS)
    for number, body in enumerate(bodies):
        append(outbox, evolve(put_off(body), id=str(number)))
    read = outbox.read("a", 2)
    assert [found.id for found in read] == ["5", "6"]
    assert outbox.stats("a").waiting == 3
    assert outbox.entry("7") is not None
    assert outbox.size_bytes == 0
    assert sum(body.times for body in bodies) == 0
    assert [found.body for found in read] == [b"{}"] * 2
    assert [found.body for found in outbox.read("a", 2)] == [b"{}"] * 2, "they are kept"
    assert [body.times for body in bodies] == [0, 0, 0, 0, 0, 1, 1, 0]
    assert outbox.size_bytes == 4


def test_a_file_takes_the_body_at_once(tmp_path: Path) -> None:
    outbox, body = SqliteOutbox(tmp_path / "outbox.db", max_age_s=1e9), Body(b"abc")
    append(outbox, put_off(body))
    assert body.times == 1
    found = outbox.entry("1")
    assert found is not None
    assert found.body == b"abc"
    outbox.close()
