"""Records with a key take the second handle if none of their key is outstanding on the first. No broker."""

import contextlib
from collections import Counter
from functools import partial
from typing import Any

import pytest
from confluent_kafka.cimpl import Producer

from kafka_partition_events.health.in_flight import MAIN, STANDBY
from tests.unit.keyed_rig import Make, Rig, make, make_either, queued

__all__ = ["make", "make_either", "queued"]


def test_a_new_key_goes_by_the_second_one_and_one_that_is_outstanding_waits(make_either: Make) -> None:
    rig = make_either()
    rig.suspect()
    rig.produce(b"old3")
    rig.trust(MAIN, (4,))
    rig.produce(b"new", b"new", b"old3", b"new2", b"old3")
    assert rig.queued == (3, 1)
    assert rig.keys.waiting == 2
    rig.report_all()
    assert len(rig.partitions) == 6
    assert rig.keys.waiting == 0


def test_a_batch_of_keys_alone_is_followed_by_its_first_record() -> None:
    with contextlib.closing(Rig(Counter(), {}, {})) as rig:
        rig.produce_batch(b"first", b"second")
        assert sum(rig.producer.stats.deliveries.outstanding.values()) == 1
        rig.suspect()
        rig.produce(b"first")
        assert rig.keys.waiting == 1, "a report will show when nothing of it is outstanding"
        rig.produce(b"second")
        assert rig.keys.waiting == 1, "and of this one none will: it stays where it is"
        rig.report_all()
        assert len(rig.outcomes) == 4


@pytest.mark.parametrize(
    "odd", [[], [{}], [{"key": 5}], [{"key": b"k", "value": 5}], [{"key": b"k"}, 5], "ab"]
)
def test_an_odd_batch_is_refused_as_by_a_plain_producer(make: Make, odd: Any) -> None:
    rig = make()
    seen = []
    for produce_batch in (rig.producer.produce_batch, partial(Producer.produce_batch, rig.producer)):
        try:
            seen.append(produce_batch("t", odd))
        except Exception as error:  # noqa: BLE001 - whatever plain raises
            seen.append((type(error), str(error)))
    assert seen[0] == seen[1]


def test_messages_of_a_batch_keep_the_order_of_their_keys_too(make: Make) -> None:
    rig = make()
    rig.suspect()
    rig.produce_batch(b"old", b"old2")
    rig.trust(MAIN, (4,))
    rig.produce_batch(b"old", b"new", "old2", b"new")
    assert rig.queued == (2, 2)
    assert rig.keys.waiting == 2
    rig.trust()
    rig.produce_batch(b"new", b"newer", b"old")
    assert rig.queued == (4, 2)
    assert rig.keys.waiting == 3
    rig.report_all()
    assert len(rig.outcomes) == 9


KEYS = [b"key-%d" % number for number in range(60)]


def test_keys_of_a_leader_that_cannot_be_connected_to_stay_with_the_first_handle(make_either: Make) -> None:
    rig = make_either()
    rig.suspect(2, down=frozenset({2}))
    needs = sum(rig.home_of(key) == 1 for key in KEYS)
    rig.produce(*KEYS)
    assert rig.queued == (needs, 60 - needs)
    assert 0 < needs < 60


@pytest.mark.parametrize("config", [{"acks": 1}, {"delivery.report.only.error": True}])
def test_without_a_second_handle_nothing_is_counted(make: Make, config: dict[str, Any]) -> None:
    rig = make(config)
    rig.trust(STANDBY, (4,))
    rig.produce(*[b"k%d" % n for n in range(100)])
    assert rig.queued == (100, 0)
    assert not rig.keeps_order
