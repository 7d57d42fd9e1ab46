"""The brokers' time."""

from kafka_partition_events.control.protocol.clock import BrokerClock


def test_an_answer_that_is_late_moves_nothing_back() -> None:
    assert BrokerClock().now_ms(5.0) is None
    clock = BrokerClock().heard(1_000_000, now=50.0)
    assert clock.now_ms(60.0) == 1_010_000
    assert clock.heard(1_001_000, now=55.0).now_ms(60.0) == 1_010_000


def test_the_slowest_clock_counts_so_that_nobody_passes_for_lost_too_early() -> None:
    clock = BrokerClock().heard(1_000_000, 50.0, 0).heard(1_660_000, 50.0, 1)
    assert clock.now_ms(50.0) == 1_000_000
