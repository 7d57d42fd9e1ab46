"""When a rescue may be had, and what its limits are."""

from typing import Any

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.flight.rescue import RescueLimits, checked_mode


def checked(mode: str | None, **given: Any) -> Any:
    return checked_mode(mode, **{"limits": None, "transaction": None, "acknowledged": True, **given})


@pytest.mark.parametrize("mode", [None, "failed", "hedge"])
def test_a_mode_is_one_of_two_or_none(mode: str | None) -> None:
    assert checked(mode) == mode


@pytest.mark.parametrize(
    ("mode", "given", "why"),
    [
        ("always", {}, "rescue must be one of failed, hedge, not 'always'"),
        (None, {"limits": RescueLimits()}, "rescue_limits without rescue"),
        ("failed", {"transaction": "transactional.id"}, "can't be used with transactional.id: a copy may"),
        ("hedge", {"acknowledged": False}, "can't be used with acks=0: no broker acknowledges"),
    ],
)
def test_what_leaves_nothing_to_rescue_is_refused_in_words(mode: Any, given: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        checked(mode, **given)


@pytest.mark.parametrize("limits", [{"share": 0}, {"burst": 0}, {"attempts": 1}, {"held_bytes": 0}])
def test_limits_that_allow_for_no_copy_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"share > 0.*{next(iter(limits))}=[01]"):
        RescueLimits(**limits)
