"""`kpe demo growth`: its verdict, and a client that ends by itself. The demo itself is run weekly."""

import pytest

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.demo.growth import PLAIN, Reader, Side, Writer, verdict


@pytest.mark.parametrize(
    ("plain_missed", "gated_new", "gated_missed", "held", "good", "words"),
    [
        (9, 50, 0, True, True, "plain growth skipped records, growth with a gate none"),
        (0, 50, 0, True, False, "nothing was skipped by either"),
        (9, 50, 1, True, False, "did NOT keep its promise"),
        (9, 0, 0, True, False, "did NOT keep its promise"),
        (9, 50, 0, False, False, "did NOT keep its promise"),
    ],
    ids=["as known", "the group was first", "missed", "nothing shown", "not held"],
)
def test_the_verdict(
    plain_missed: int, gated_new: int, gated_missed: int, held: bool, good: bool, words: str
) -> None:
    found, said = verdict(plain_missed, gated_new, gated_missed, held=held)
    assert found is good
    assert words in said


class Broken:
    """A client that fails at once."""

    def produce(self, *_: object, **__: object) -> None:
        raise BufferError("full")

    def poll(self, _: float) -> None:
        raise RuntimeError("no such group")

    def flush(self, _: float) -> None: ...
    def close(self) -> None: ...


class Idle:
    """One that does nothing."""

    def produce(self, *_: object, **__: object) -> None: ...
    def poll(self, _: float) -> None: ...
    def flush(self, _: float) -> None: ...
    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("producer", "consumer", "told"),
    [
        (Broken(), Idle(), r"the producer of orders-plain has ended: BufferError\('full'\)"),
        (Idle(), Broken(), r"the consumer of orders-plain has ended: RuntimeError\('no such group'\)"),
    ],
    ids=["producer", "consumer"],
)
def test_a_client_that_ends_by_itself_is_told(producer: object, consumer: object, told: str) -> None:
    side = Side(PLAIN, Writer(producer, PLAIN), Reader(consumer))
    for worker in (side.writer, side.reader):
        worker.stop()
    with pytest.raises(CliError, match=told):
        side.check()
