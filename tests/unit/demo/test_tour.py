"""`kpe demo events`: what a dashboard sees that polls. The demo itself is run weekly."""

import pytest

from kafka_partition_events.demo.tour.run import changes_seen
from tests.whatif_kit import snapshot

UP, DOWN, UP_AGAIN = snapshot(6), snapshot(6, offline=[3]), snapshot(6)


@pytest.mark.parametrize(
    ("first_s", "seen"),
    [(0.0, 2), (5.0, 2), (6.0, 0), (9.0, 0), (10.0, 2), (14.0, 2)],
)
def test_polls_see_what_lasts_until_one_of_them(first_s: float, seen: int) -> None:
    """A partition is offline from 10 s to 21 s, and polls come every 15 s."""
    snapshots = [(100.0, UP), (110.0, DOWN), (121.0, UP_AGAIN)]
    assert changes_seen(snapshots, 15.0, first_s) == seen


def test_nothing_has_changed() -> None:
    assert changes_seen([(100.0, UP)], 15.0, 3.0) == 0
