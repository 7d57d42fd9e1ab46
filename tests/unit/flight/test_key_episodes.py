"""One event when keys leave a sick broker, and one when they are home."""

from kafka_partition_events import Event, KeysMoved, KeysReturned
from kafka_partition_events.clients.flight.key_episodes import KeyEpisodes


def moved(keys: int, *brokers: int) -> KeysMoved:
    return KeysMoved(topic="t", brokers=brokers, keys=keys)


def returned(keys: int, away: int = 0) -> KeysReturned:
    return KeysReturned(topic="t", keys=keys, away=away)


class Told:
    """Episodes of one topic, asked at given seconds."""

    def __init__(self) -> None:
        self.episodes = KeyEpisodes()

    def at(self, now: float, away: int, left: int, *suspects: int) -> list[Event]:
        return list(self.episodes.news({"t": (away, left)}, suspects, now))


def test_nothing_is_said_as_long_as_no_key_has_left() -> None:
    assert Told().at(0, 0, 0, 3) == []


def test_it_is_said_once_a_second_after_the_first_key_has_left() -> None:
    told = Told()
    assert told.at(0, 5, 5, 3) == []
    assert told.at(1, 20, 30, 3) == [moved(30, 3)]
    assert told.at(2, 40, 60, 3) == []


def test_and_once_when_all_are_home() -> None:
    told = Told()
    told.at(0, 5, 5, 3)
    told.at(1, 9, 9, 3)
    assert told.at(7, 2, 60) == []
    assert told.at(8, 0, 60) == [returned(60)]
    assert told.at(9, 0, 60) == []


def test_what_is_over_within_the_second_is_said_all_the_same() -> None:
    told = Told()
    told.at(0, 5, 5, 3)
    assert told.at(0.5, 0, 6) == [moved(6, 3), returned(6)]


def test_keys_that_are_not_written_any_more_are_waited_for_30_s() -> None:
    told = Told()
    told.at(0, 5, 5, 3)
    told.at(6, 3, 9, 3)
    assert told.at(35.9, 3, 9) == []
    assert told.at(36, 3, 9) == [returned(9, away=3)]
    assert told.at(100, 3, 9) == []


def test_a_suspicion_meanwhile_begins_the_30_s_anew() -> None:
    told = Told()
    told.at(0, 5, 5, 3)
    told.at(6, 3, 9)
    told.at(20, 3, 9, 4)
    told.at(21, 3, 9)
    assert told.at(40, 3, 9) == []
    assert told.at(51, 3, 9) == [returned(9, away=3)]


def test_the_next_episode_counts_from_its_beginning_and_names_all_who_were_suspect() -> None:
    told = Told()
    told.at(0, 5, 5, 3)
    told.at(1, 0, 5)
    assert told.at(2, 4, 9, 3) == []
    assert told.at(2.5, 4, 9, 1) == []
    assert told.at(3, 5, 10, 3) == [moved(5, 1, 3)]
