"""Ids of changes."""

import pytest

from kafka_partition_events.control.protocol.records import ulid


def test_the_time_of_the_specification_s_example() -> None:
    assert ulid(1_469_918_176_385, bytes(10)) == "01ARYZ6S410000000000000000"  # github.com/ulid/spec


def test_the_largest_one() -> None:
    assert ulid((1 << 48) - 1, b"\xff" * 10) == "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"


def test_they_sort_by_time() -> None:
    moments = [0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001]
    assert sorted(ids := [ulid(ms, bytes([255 - place] * 10)) for place, ms in enumerate(moments)]) == ids


@pytest.mark.parametrize(("now_ms", "size"), [(-1, 10), (1 << 48, 10), (0, 9), (0, 11)])
def test_what_does_not_fit_is_refused(now_ms: int, size: int) -> None:
    with pytest.raises(ValueError, match="48 bits of time and 10 bytes"):
        ulid(now_ms, bytes(size))
