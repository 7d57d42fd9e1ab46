"""What a tracker makes of an error when it creates partitions: what is there counts."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.tracker.topic_growth import Grower
from kafka_partition_events.metadata.cluster import TopicInfo
from kafka_partition_events.testing.scripted import cluster_of
from tests.control_kit import ONE, Story, growth


class Topic(Grower):
    """Grows one topic in memory, which gets so many partitions whatever is asked for; then an error comes."""

    def __init__(self, gets: int, error: int = KafkaError._TIMED_OUT) -> None:
        super().__init__({"bootstrap.servers": "localhost:1"}, Policy())
        self.count, self.gets, self.error = 6, gets, error

    def _described(self, topic: str) -> TopicInfo:
        return cluster_of({topic: [1] * self.count}).by_topic[topic]

    def _create(self, topic: str, count: int) -> None:
        self.count = self.gets
        raise KafkaException(KafkaError(self.error, "nobody has answered"))


def grown(gets: int, error: int = KafkaError._TIMED_OUT, *, proven: bool = True) -> Topic:
    story = Story()
    story.request(growth())
    grower = Topic(gets, error)
    grower.grow([story.change], lambda: proven)
    grower.close()
    return grower


def test_an_answer_that_was_lost_is_no_trouble_if_all_partitions_are_there() -> None:
    grower = grown(gets=12)
    assert (grower.count, grower.troubles) == (12, {})


@pytest.mark.parametrize("gets", [6, 9])
def test_an_error_after_which_nothing_or_a_part_of_it_is_there(gets: int) -> None:
    grower = grown(gets)
    assert grower.count == gets
    assert "can't add partitions to orders: nobody has answered" in grower.troubles[ONE]


@pytest.mark.parametrize(
    ("error", "unclear"), [(KafkaError._TIMED_OUT, True), (KafkaError.TOPIC_AUTHORIZATION_FAILED, False)]
)
def test_what_may_be_there_may_show_later(monkeypatch: pytest.MonkeyPatch, error: int, unclear: bool) -> None:
    grower = grown(6, error)
    assert grower.growing == ({ONE} if unclear else set())
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert grower.growing == set()


def test_who_may_have_been_replaced_creates_nothing() -> None:
    grower = grown(gets=12, proven=False)
    assert (grower.count, grower.troubles) == (6, {})
