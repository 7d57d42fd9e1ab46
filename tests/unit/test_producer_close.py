"""`close` gives each record that is held its outcome, whatever callbacks raise."""

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka.cimpl import Producer

from kafka_partition_events.health.in_flight import MAIN
from tests.unit.keyed_rig import Make, make, queued

__all__ = ["make", "queued"]


def test_each_callback_is_called_though_each_raises(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, heard = make(), list[bytes | str | None]()

    def note(_error: KafkaError | None, message: Message) -> None:
        heard.append(message.key())
        raise ValueError("a callback's")

    def flush() -> None:
        raise ValueError("of flush")

    rig.suspect()
    rig.trust(MAIN, (4,))
    rig.produce(b"a", b"b", b"c")
    rig.suspect()
    for key in (b"a", b"b", b"c"):
        rig.producer.produce("t", b"v", key, on_delivery=note)
    assert rig.keys.waiting == 3
    Producer.purge(rig.producer)
    with monkeypatch.context() as patched:
        patched.setattr(rig.producer, "flush", flush)
        with pytest.raises(ValueError, match=r"of flush|a callback's"):
            rig.producer.close()
    monkeypatch.setattr(rig.producer, "purge", lambda: None)  # which the rig would do at its end
    assert sorted(map(str, heard)) == ["b'a'", "b'b'", "b'c'"]
