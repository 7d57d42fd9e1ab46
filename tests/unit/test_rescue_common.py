"""What both clients' rescue has in common: modes and limits."""

from typing import Any

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.rescue import RescueLimits, checked_mode


@pytest.mark.parametrize("mode", [None, "failed", "hedge"])
def test_a_mode_is_one_of_two_or_none(mode: str | None) -> None:
    assert checked_mode(mode) == mode


def test_another_mode_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigurationError, match="rescue must be one of failed, hedge, not 'always'"):
        checked_mode("always")


@pytest.mark.parametrize("limits", [{"share": 0}, {"burst": 0}, {"attempts": 1}, {"held_bytes": 0}])
def test_limits_that_allow_for_no_copy_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"share > 0.*{next(iter(limits))}=[01]"):
        RescueLimits(**limits)
