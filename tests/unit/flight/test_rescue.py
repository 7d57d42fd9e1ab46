"""When a rescue may be had."""

import pytest

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.flight.rescue import checked_mode


@pytest.mark.parametrize("mode", [None, "failed", "hedge"])
def test_a_mode_is_one_of_two_or_none(mode: str | None) -> None:
    assert checked_mode(mode, transaction=None, acknowledged=True) == mode


def test_another_mode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="rescue must be one of failed, hedge, not 'always'"):
        checked_mode("always", transaction=None, acknowledged=True)
