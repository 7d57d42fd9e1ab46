"""Ids of changes."""

import pytest

from kafka_partition_events.cli.change.request import ulid


@pytest.mark.parametrize(
    ("now_ms", "chance", "expected"),
    [
        (1_469_918_176_385, bytes(10), "01ARYZ6S410000000000000000"),  # github.com/ulid/spec
        ((1 << 48) - 1, b"\xff" * 10, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
    ],
)
def test_the_time_and_what_no_one_else_has(
    monkeypatch: pytest.MonkeyPatch, now_ms: int, chance: bytes, expected: str
) -> None:
    monkeypatch.setattr("os.urandom", lambda size: chance[:size])
    assert ulid(now_ms) == expected


def test_they_sort_by_time() -> None:
    ids = [ulid(ms) for ms in (0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001)]
    assert sorted(ids) == ids
