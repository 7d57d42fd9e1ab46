"""When a rescue may be had."""

from typing import Any

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.flight.rescue import checked_mode


def checked(mode: str | None, **given: Any) -> Any:
    return checked_mode(mode, **{"transaction": None, "acknowledged": True, **given})


@pytest.mark.parametrize("mode", [None, "failed", "hedge"])
def test_a_mode_is_one_of_two_or_none(mode: str | None) -> None:
    assert checked(mode) == mode


@pytest.mark.parametrize(
    ("mode", "given", "why"),
    [
        ("always", {}, "rescue must be one of failed, hedge, not 'always'"),
        ("failed", {"transaction": "transactional.id"}, "can't be used with transactional.id: a copy may"),
        ("hedge", {"acknowledged": False}, "can't be used with acks=0: no broker acknowledges"),
    ],
)
def test_what_leaves_nothing_to_rescue_is_refused_in_words(mode: Any, given: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        checked(mode, **given)
