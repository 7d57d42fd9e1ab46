"""`commit` of an `OrderedConsumer` that names nothing includes what was handed out last."""

from typing import Any

import pytest

from kafka_partition_events.clients.confluent.ordered import Ordering


class Plain:
    """Stands for a `confluent_kafka.Consumer`."""

    def __init__(self, _config: dict[str, Any]) -> None:
        self.stored: list[object] = []

    def store_offsets(self, message: object) -> None:
        self.stored.append(message)

    def commit(self, *_args: Any, **_kwargs: Any) -> list[object]:
        return self.stored


class Member(Ordering, Plain):
    """What is tested, without a Kafka."""


NOTHING_NAMED: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((), {"asynchronous": False}),
    ((), {"message": None, "offsets": None}),
    ((None,), {}),
    ((None, None, False), {}),
]


@pytest.mark.parametrize(("args", "kwargs"), NOTHING_NAMED)
def test_what_names_nothing_includes_it(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    member = Member({"group.id": "g"})
    member._unstored["t", 0] = "handed out"  # type: ignore[assignment]
    assert member.commit(*args, **kwargs) == ["handed out"]


@pytest.mark.parametrize(("args", "kwargs"), [(("message",), {}), ((), {"offsets": ["offset"]})])
def test_what_names_something_does_not(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    member = Member({"group.id": "g"})
    member._unstored["t", 0] = "handed out"  # type: ignore[assignment]
    assert member.commit(*args, **kwargs) == []
