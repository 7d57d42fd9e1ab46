"""Stuck records with a key are sent again from elsewhere, and then only that attempt counts. No broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_partition_events.clients.flight.key_moves import MoveKeys
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.kafka_python import rescue_stats
from kafka_partition_events.health.in_flight import STANDBY
from tests.unit.kafka_python_kit import FakeProducer
from tests.unit.keyed_rig import (
    KafkaPythonRig,
    Make,
    Rig,
    fake_kafka_python,
    make_either,
    making,
    queued,
)

__all__ = ["make_either", "queued"]

HEDGE: Any = {"keys": MoveKeys(compacted_ok=True), "rescue": "hedge"}


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, str, int], int]:
    """Where records wait for a suspect."""
    places: dict[tuple[int, str, int], int] = {}
    monkeypatch.setattr(ProducerReports, "stuck", lambda _reports: places)
    return places


def hang(rig: Rig, stuck: dict[tuple[int, str, int], int]) -> None:
    """Find broker 2 suspect, which leads partition 1, with all that waits for it."""
    rig.suspect(2)
    stuck.update({(0, "t", 1): 2, (STANDBY, "t", 1): 2})
    serve(rig)


def flight_of(rig: Any) -> Any:
    return rig.adapter.flight if hasattr(rig, "adapter") else rig.producer._flight


def serve(rig: Any) -> None:
    flight = flight_of(rig)
    flight._next_search = flight.keyed._next_recall = 0.0
    flight.served()


def test_those_of_a_key_follow_one_another_to_its_stand_in(make_either: Make, stuck: Any) -> None:
    rig = make_either(**HEDGE)
    key = rig.a_key(1)
    rig.produce(key, rig.a_key(0), key)
    hang(rig, stuck)
    assert rig.queued == (3, 2)
    rig.produce(key)
    assert rig.queued == (3, 3), "what comes later goes where they are"
    assert (rig.keys.displaced, rig.keys.waiting) == (1, 0)


def test_one_that_stays_gets_no_copy(make_either: Make, stuck: Any) -> None:
    rig = make_either(rescue="hedge")
    rig.produce(rig.a_key(1))
    hang(rig, stuck)
    assert rig.queued == (1, 0)


def test_what_was_sent_over_two_seconds_waits(make_either: Make, stuck: Any) -> None:
    """Else the first may time out at home while a later one is written there, and is read before its copy."""
    rig, now = make_either(**HEDGE), [100.0]
    flight_of(rig)._clock = lambda: now[0]
    soon, late, *_ = (k for n in range(99) if rig.home_of(k := b"k%d" % n) == 1)
    rig.produce(soon, late)
    now[0] += 1.9
    rig.produce(soon)
    now[0] += 0.1
    rig.produce(late)
    hang(rig, stuck)
    assert rig.queued == (4, 2)


class TestOnKafkaPython:
    @pytest.fixture
    def rig(self, queued: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        fake_kafka_python(monkeypatch)
        for make in making(KafkaPythonRig, queued):
            yield make(**HEDGE)

    def headers(self, rig: Any, handle: int, at: int) -> dict[str, Any]:
        return dict(rig._handles[handle].sent[at].headers)

    def test_a_copy_has_the_id_of_its_original_and_says_what_it_comes_after(
        self, rig: Any, stuck: Any
    ) -> None:
        key = rig.a_key(1)
        rig.produce(key)
        rig.report(0)  # at offset 0
        rig.produce(key, key)
        hang(rig, stuck)
        originals = [self.headers(rig, 0, at) for at in (1, 2)]
        copies = [self.headers(rig, 1, at) for at in (0, 1)]
        assert [each["kpe-id"] for each in copies] == [each["kpe-id"] for each in originals]
        assert [each["kpe-after"] for each in copies] == [b"1:0", b"1:0"]
        assert [each.get("kpe-after") for each in originals] == [None, None]

    def test_the_late_original_is_no_outcome_and_no_end_of_waiting(self, rig: Any, stuck: Any) -> None:
        key = rig.a_key(1)
        rig.produce(key, key)
        hang(rig, stuck)
        rig.report(0)
        assert rig.heard == []
        rig.report(1)
        assert [metadata.partition for metadata in rig.heard] == [rig._handles[1].sent[0].partition] * 2
        assert rescue_stats(rig.producer).saved == 2
        assert rescue_stats(rig.producer).held_bytes == 0

    def test_what_is_just_handed_over_is_left(
        self, rig: Any, stuck: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send, key = FakeProducer.send, rig.a_key(1)

        def send_slowly(producer: Any, topic: str, **record: Any) -> Any:
            if not stuck:
                hang(rig, stuck)  # another thread finds out meanwhile
                assert rig.queued == (0, 0)
            return send(producer, topic, **record)

        monkeypatch.setattr(FakeProducer, "send", send_slowly)
        rig.produce(key)
        assert rig.queued == (1, 0)
        serve(rig)
        assert rig.queued == (1, 1)
