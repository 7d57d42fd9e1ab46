"""The brokers' time, as far as answers to one's own records tell."""

from kafka_partition_events.control.protocol.clock import BrokerClock


def test_nothing_is_known_before_the_first_answer() -> None:
    assert BrokerClock().now_ms(5.0) is None


def test_it_goes_on_by_the_monotonic_clock() -> None:
    clock = BrokerClock().heard(1_000_000, now=50.0)
    assert clock.now_ms(50.0) == 1_000_000
    assert clock.now_ms(57.5) == 1_007_500


def test_an_answer_that_took_long_does_not_put_it_back() -> None:
    clock = BrokerClock().heard(1_000_000, now=50.0)
    assert clock.heard(1_000_500, now=58.0).now_ms(58.0) == 1_008_000


def test_an_answer_that_was_quick_puts_it_right() -> None:
    clock = BrokerClock().heard(1_000_000, now=52.0).heard(1_003_000, now=53.0)
    assert clock.now_ms(53.0) == 1_003_000


def test_one_broker_of_three_that_is_wrong_moves_nothing() -> None:
    clock = BrokerClock()
    for place, appended_ms in enumerate((1_000_000, 1_000_000, 1_660_000)):
        clock = clock.heard(appended_ms, 50.0, place)
    assert clock.now_ms(50.0) == 1_000_000
    assert clock.heard(400_000, 50.0, 0).now_ms(50.0) == 1_000_000


def test_it_tells_by_how_much_brokers_differ_now() -> None:
    ahead = BrokerClock().heard(1_000_000, 50.0, 0).heard(1_660_000, 50.0, 1)
    assert ahead.spread_s == 660
    assert ahead.heard(1_001_000, 51.0, 1).spread_s == 0
