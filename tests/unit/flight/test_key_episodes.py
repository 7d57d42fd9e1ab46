"""One event when keys leave a sick broker, and one when they are home."""

import pytest

from kafka_partition_events import Event, KeysMoved, KeysReturned
from kafka_partition_events.clients.flight.key_episodes import KeyEpisodes


def moved(keys: int, *brokers: int) -> KeysMoved:
    return KeysMoved(topic="t", brokers=brokers, keys=keys)


def returned(keys: int, away: int = 0) -> KeysReturned:
    return KeysReturned(topic="t", keys=keys, away=away)


# When it is asked, how many keys are away and have left so far, who is suspect; and what is published then.
STORIES = {
    "nothing as long as no key has left": [(0, 0, 0, {3}, [])],
    "once a second after the first has left": [
        (0, 5, 5, {3}, []),
        (1, 20, 30, {3}, [moved(30, 3)]),
        (2, 40, 60, {3}, []),
    ],
    "and once when all are home": [
        (0, 5, 5, {3}, []),
        (1, 9, 9, {3}, [moved(9, 3)]),
        (7, 2, 60, set(), []),
        (8, 0, 60, set(), [returned(60)]),
        (9, 0, 60, set(), []),
    ],
    "what is over within the second": [(0, 5, 5, {3}, []), (0.5, 0, 6, set(), [moved(6, 3), returned(6)])],
    "keys that are not written any more are waited for 30 s": [
        (0, 5, 5, {3}, []),
        (6, 3, 9, {3}, [moved(9, 3)]),
        (35.9, 3, 9, set(), []),
        (36, 3, 9, set(), [returned(9, away=3)]),
        (100, 3, 9, set(), []),
    ],
    "which begin again with a suspicion meanwhile": [
        (0, 5, 5, {3}, []),
        (6, 3, 9, set(), [moved(9, 3)]),
        (20, 3, 9, {4}, []),
        (21, 3, 9, set(), []),
        (40, 3, 9, set(), []),
        (51, 3, 9, set(), [returned(9, away=3)]),
    ],
    "the next one counts from its beginning and names all who were suspect": [
        (0, 5, 5, {3}, []),
        (1, 0, 5, set(), [moved(5, 3), returned(5)]),
        (2, 4, 9, {3}, []),
        (2.5, 4, 9, {1}, []),
        (3, 5, 10, {3}, [moved(5, 1, 3)]),
    ],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_what_is_published(story: list[tuple[float, int, int, set[int], list[Event]]]) -> None:
    episodes = KeyEpisodes()
    for now, away, left, suspects, expected in story:
        assert list(episodes.news({"t": (away, left)}, suspects, now)) == expected
