"""Silences and maintenance windows: what they are about, when they mute, and what is refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.incidents import (
    Rules,
    Silence,
    decode_silence,
    encode_silence,
)

TEN = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)  # a Friday
HOUR = timedelta(hours=1)


def silence(**fields: Any) -> Silence:
    usual = {
        "id": "s-1",
        "author": "ann",
        "reason": "new disks",
        "since": TEN,
        "until": TEN + HOUR,
        "name": "*",
    }
    return Silence(**{**usual, **fields})


class TestTimes:
    def test_from_since_up_to_but_not_including_until(self) -> None:
        once = silence()
        assert once.end_after(TEN - timedelta.resolution) is None
        assert once.end_after(TEN) == TEN + HOUR
        assert once.end_after(TEN + HOUR - timedelta.resolution) == TEN + HOUR
        assert once.end_after(TEN + HOUR) is None

    def test_a_window_comes_round_every_week(self) -> None:
        window = silence(until=None, weekly="sat 22:30 180min")
        for week in range(3):
            start = datetime(2026, 11, 21, 22, 30, tzinfo=UTC) + timedelta(weeks=week)
            assert window.end_after(start - timedelta(seconds=1)) is None
            assert window.end_after(start) == start + timedelta(hours=3)
            past_midnight = start + timedelta(hours=2, minutes=59)
            assert window.end_after(past_midnight) == start + timedelta(hours=3)
            assert window.end_after(start + timedelta(hours=3)) is None

    def test_a_window_may_reach_into_the_next_week(self) -> None:
        window = silence(until=None, weekly="sun 23:00 120min")
        monday = datetime(2026, 11, 23, 0, 30, tzinfo=UTC)
        assert window.end_after(monday) == monday + timedelta(minutes=30)

    @pytest.mark.parametrize(("sunday", "start"), [((2026, 7, 5), (0, 30)), ((2026, 12, 6), (1, 30))])
    def test_a_window_goes_by_the_clocks_of_its_zone(
        self, sunday: tuple[int, int, int], start: tuple[int, int]
    ) -> None:
        window = silence(
            since=datetime(2026, 1, 1, tzinfo=UTC), until=None, weekly="sun 02:30 90min Europe/Berlin"
        )
        begins = datetime(*sunday, *start, tzinfo=UTC)
        assert window.end_after(begins - timedelta.resolution) is None
        assert window.end_after(begins) == begins + timedelta(minutes=90)
        assert window.end_after(begins + timedelta(minutes=90)) is None

    def test_a_window_lasts_as_long_as_it_says_when_clocks_are_set(self) -> None:
        since = datetime(2026, 1, 1, tzinfo=UTC)
        window = silence(since=since, until=None, weekly="sun 01:00 180min Europe/Berlin")
        forward, back = (datetime(2026, month, day, 0, tzinfo=UTC) for month, day in ((3, 29), (10, 25)))
        assert window.end_after(forward) == forward + timedelta(hours=3)
        assert window.end_after(back - timedelta(hours=1)) == back + timedelta(hours=2)

    @pytest.mark.parametrize("zone", ["Europe", "Mars/Phobos", "../../etc/passwd", "/etc/localtime"])
    def test_a_zone_that_there_is_not(self, zone: str) -> None:
        with pytest.raises(ConfigurationError, match="weekly must look like"):
            silence(until=None, weekly=f"sun 02:30 90min {zone}")

    def test_a_window_ends_with_its_silence_and_begins_not_before_it(self) -> None:
        weekly = "fri 09:00 180min"
        assert silence(weekly=weekly).end_after(TEN - timedelta(minutes=1)) is None
        assert silence(weekly=weekly).end_after(TEN) == TEN + HOUR

    def test_times_of_other_zones_are_understood(self) -> None:
        tokyo = decode_silence(encode_silence(silence()).replace(b"10:00:00.000000Z", b"19:00:00+09:00"))
        assert tokyo.since == TEN


class TestMatching:
    @pytest.mark.parametrize(
        ("fields", "muted"),
        [
            ({"name": "incident.*"}, True),
            ({"name": "topic.*"}, False),
            ({"name": None, "cluster": "c-1"}, True),
            ({"name": None, "cluster": "c-2"}, False),
            ({"name": None, "broker": 2}, True),
            ({"name": None, "broker": 0}, False),
            ({"name": None, "topic": "test-.*"}, True),
            ({"name": None, "topic": "test-a"}, False),
            ({"name": None, "topic": "test"}, False),
            ({"name": "incident.*", "broker": 2, "topic": "test-.*", "cluster": "c-1"}, True),
            ({"name": "incident.*", "broker": 3, "topic": "test-.*"}, False),
        ],
    )
    def test_all_matchers_must_match(self, fields: dict[str, Any], muted: bool) -> None:
        made = silence(**fields)
        assert made.mutes("incident.opened", "c-1", 2, frozenset({"test-a", "test-b"})) is muted

    def test_a_silence_of_topics_does_not_mute_what_concerns_none(self) -> None:
        assert not silence(name=None, topic=".*").mutes("incident.opened", "c-1", 2, frozenset())


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"id": "a/b"}, "id"),
            ({"author": " "}, "author is required"),
            ({"reason": ""}, "reason is required"),
            ({"until": TEN}, "later than since"),
            ({"until": None}, "until is required"),
            ({"since": TEN.replace(tzinfo=None)}, "since must have a time zone"),
            ({"name": None}, "one of cluster, topic, broker, name is required"),
            ({"topic": "("}, r"topic '\(' is no regular expression"),
        ],
    )
    def test_a_silence_that_makes_no_sense(self, fields: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            silence(**fields)

    @pytest.mark.parametrize(
        "weekly",
        [
            "sunday 02:30 90min",
            "sun 24:00 90min",
            "sun 2:30 90min",
            "sun 02:30 90",
            "sun 02:30",
            "sun 02:30 0min",
        ],
    )
    def test_a_week_that_makes_no_sense(self, weekly: str) -> None:
        with pytest.raises(ConfigurationError, match="weekly must look like 'sun 02:30 90min'"):
            silence(weekly=weekly)

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (b"{", "must be JSON"),
            (b"\xff", "must be JSON"),
            (b"[]", "JSON object"),
            (b'{"id": "s"}', "author"),
            (b'{"since": "tomorrow"}', "since must be a moment"),
            (b'{"since": 5}', "since must be a moment"),
        ],
    )
    def test_what_is_no_silence(self, value: bytes, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            decode_silence(value)

    @pytest.mark.parametrize(
        ("field", "value"), [("topics", "a"), ("author", 5), ("topic", 5), ("name", 5), ("broker", "2")]
    )
    def test_an_unknown_field_or_another_type(self, field: str, value: Any) -> None:
        fields = {**json.loads(encode_silence(silence())), field: value}
        with pytest.raises(ConfigurationError, match="can't be made of"):
            decode_silence(json.dumps(fields))


@pytest.mark.parametrize(
    "made",
    [
        silence(),
        silence(name=None, cluster="c-1", broker=0, topic="a|b"),
        silence(until=None, weekly="sun 02:30 60min"),
    ],
)
def test_a_silence_is_kept_as_it_is(made: Silence) -> None:
    assert decode_silence(encode_silence(made)) == made
    assert made.key == "silence/s-1"


class TestRules:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"hold_down": -1}, "hold_down must be 0"),
            ({"broker_hold_down": float("nan")}, "broker_hold_down"),
            ({"topic_hold_downs": {"(": 5}}, r"'\(' is no pattern"),
            ({"topic_hold_downs": {"a.*": -5}}, r"'a\.\*' must be 0"),
            ({"update_interval": 0}, "update_interval must be 1"),
            ({"flap_window": 0}, "flap_window must be 1"),
            ({"flap_transitions": 1}, "flap_transitions must be at least 2"),
        ],
    )
    def test_values_out_of_range_are_refused(self, fields: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            Rules(**fields)
