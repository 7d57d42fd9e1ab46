"""What kafka-python's rescue sends again, and what it refuses, without a broker."""

from typing import Any

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.kafka_python.rescue import refuse_with, rescue_stats
from kafka_partition_events.clients.kafka_python.serializing import Serialized, SerializedOnce
from kafka_partition_events.clients.rescue import RescueStats

# -- serializers -------------------------------------------------------------------------------------


class Json:
    def __init__(self) -> None:
        self.calls = 0

    def serialize(self, topic: str, headers: object, value: object) -> bytes:
        self.calls += 1
        return repr(value).encode()

    def close(self) -> str:
        return "closed"


class Old:
    def serialize(self, topic: str, value: object) -> bytes:
        return repr(value).encode()


def test_a_value_is_serialized_once() -> None:
    theirs = Json()
    once = SerializedOnce(theirs)
    value = {"n": 1}
    assert once.serialize("t", [], value) == b"{'n': 1}"
    kept = Serialized(once.latest)
    value["n"] = 2
    assert once.serialize("t", [], kept) == b"{'n': 1}"
    assert theirs.calls == 1
    assert once.close() == "closed"


def test_a_serializer_of_the_old_kind_is_told_by_its_type_error() -> None:
    once = SerializedOnce(Old())
    with pytest.raises(TypeError):
        once.serialize("t", [], 1)
    assert once.serialize("t", 1) == once.latest == b"1"
    assert not hasattr(once, "close")


# -- refusals ----------------------------------------------------------------------------------------


class FakeProducer:
    def __init__(self, **config: Any) -> None:
        self.config = {"transactional_id": None, "enable_idempotence": False, **config}


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        ({"transactional_id": "t", "enable_idempotence": True}, "transactional_id"),
        ({"enable_idempotence": True}, "enable_idempotence=False"),
    ],
)
def test_what_a_rescue_cannot_keep_is_refused(config: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigurationError, match=cause):
        refuse_with(FakeProducer(**config))


def test_a_producer_without_a_rescue_has_done_nothing() -> None:
    producer = FakeProducer()
    refuse_with(producer)
    assert rescue_stats(producer) == RescueStats()
