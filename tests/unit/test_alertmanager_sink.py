"""Alerts that last as long as incidents do: posted again from the outbox, to each Alertmanager."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.moments import moment_of
from kafka_partition_events.incidents import IncidentReader
from kafka_partition_events.incidents.decisions import Decision, encode_decision
from kafka_partition_events.incidents.silences import Silence, encode_silence
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.outbox import DeliveryError, Entry, Stream, Write
from kafka_partition_events.testing import ManualClock
from kafka_partition_events_listeners.webhook.alertmanager import AlertmanagerSink
from tests.http_receiver import Receiver
from tests.incident_kit import START, World, moment
from tests.outbox_kit import scratch_journal

Alert = dict[str, Any]


class Story:
    """A cluster that loses brokers, who observes it, and what is read of that for a sink."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START)
        self.outbox = scratch_journal(clock=self.clock)
        self.outbox.subscribe("am", Stream.INCIDENTS)
        self.world = World([1, 2, 3], {"orders": [[2], [3], [1]]})
        self.reader = self.another_reader()
        self.look(0)

    def another_reader(self) -> IncidentReader:
        return IncidentReader(self.outbox, clock=self.clock)

    def look(self, seconds: float) -> list[Entry]:
        """Let it be so late, look, and return what is told of it."""
        self.clock.advance((moment(seconds) - self.clock.now()).total_seconds())
        self.outbox.write(Write(entries=self.world.look(seconds)))
        self.reader.run_once()
        told = self.outbox.read("am", 100)
        self.outbox.write(Write(cursors={"am": told[-1].seq} if told else {}))
        return list(told)

    def lost(self, *brokers: int, at: float = 10.0) -> list[Entry]:
        """Lose brokers, and return what is told when the hold-down is over."""
        self.world.down(*brokers)
        assert self.look(at) == []
        return self.look(at + 40)


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
def target() -> Iterator[Receiver]:
    with Receiver(200) as receiver:
        yield receiver


def sink_to(story: Story, *receivers: Receiver, **options: Any) -> AlertmanagerSink:
    urls = [receiver.url for receiver in receivers]
    return AlertmanagerSink(urls, clock=story.clock, **{"allow_private": True, **options})


def alerts(receiver: Receiver) -> list[list[Alert]]:
    return [json.loads(request.body) for request in receiver.requests]


def ids(posted: list[Alert]) -> list[str]:
    return [alert["labels"]["incident_id"] for alert in posted]


def test_an_incident_is_an_alert_until_it_ends(story: Story, target: Receiver) -> None:
    sink = sink_to(story, target, runbook_url="https://wiki.example.com/kafka")
    sink.deliver(story.lost(2))
    story.world.up(2)
    closed = story.look(60)
    sink.deliver(closed)
    sink.close()
    assert [request.path for request in target.requests] == ["/services/T0K3N/api/v2/alerts"] * 2
    (opened,), (over,) = alerts(target)
    assert opened["labels"] == {
        "alertname": "KafkaBrokerLost",
        "kafka_cluster": "c-1",
        "broker": "2",
        "severity": "critical",
        "incident_id": json.loads(closed[0].body)["data"]["incident_id"],
    }
    assert opened["startsAt"] == encode_time(moment(10))
    assert opened["endsAt"] == encode_time(moment(50 + 4 * 60))
    assert opened["annotations"]["summary"] == "Incident: broker 2, 1 partition of 1 topic (c-1)"
    assert opened["annotations"]["runbook_url"] == "https://wiki.example.com/kafka"
    assert (over["labels"], over["startsAt"]) == (opened["labels"], opened["startsAt"])
    assert over["endsAt"] == encode_time(moment(60))


def test_what_lasts_is_posted_again_by_whoever_has_the_outbox(story: Story, target: Receiver) -> None:
    told = story.lost(2, 3)
    sink = sink_to(story, target)  # a new one, as after a restart: nothing was delivered by it
    assert sink.repeat(story.outbox)
    assert not sink.repeat(story.outbox)
    story.clock.advance(59)
    assert not sink.repeat(story.outbox)
    story.clock.advance(1)
    assert sink.repeat(story.outbox)
    sink.close()
    first, second = alerts(target)
    assert sorted(ids(first)) == sorted(json.loads(entry.body)["data"]["incident_id"] for entry in told)
    assert ids(second) == ids(first)
    assert [alert["labels"] for alert in second] == [alert["labels"] for alert in first]
    assert {alert["endsAt"] for alert in second} == {encode_time(moment(50 + 60 + 4 * 60))}


def test_what_is_over_or_was_never_told_is_not_posted_again(story: Story, target: Receiver) -> None:
    sink = sink_to(story, target)
    assert not sink.repeat(story.outbox)  # nothing was ever down
    silence = Silence(id="s", author="a", reason="r", since=moment(0), until=moment(3_600), broker=2)
    story.outbox.write(Write(values={silence.key: encode_silence(silence)}))
    assert story.lost(2) == []
    (opened,) = story.lost(3, at=100)
    story.clock.advance(60)
    assert sink.repeat(story.outbox)
    assert [ids(posted) for posted in alerts(target)] == [[json.loads(opened.body)["data"]["incident_id"]]]
    by_hand = Decision(verb="close", cause="broker/3", at=story.clock.now(), author="a", reason="scrapped")
    story.outbox.write(Write(values={by_hand.key: encode_decision(by_hand)}))
    story.look(300)
    story.clock.advance(60)
    assert not sink.repeat(story.outbox)
    sink.close()


def test_what_flaps_is_an_alert_too(story: Story, target: Receiver) -> None:
    told = []
    for second in range(10, 90, 20):
        story.world.down(2)
        told += story.look(second)
        story.world.up(2)
        told += story.look(second + 10)
    told += story.look(95)
    assert [entry.name for entry in told] == ["flapping.started"]
    sink = sink_to(story, target)
    sink.deliver(told)
    assert sink.repeat(story.outbox)
    stopped = story.look(1_000)
    sink.deliver(stopped)
    assert not sink.repeat(story.outbox)
    sink.close()
    (started,), (again,), (over,) = alerts(target)
    assert started["labels"]["alertname"] == "KafkaFlappingStarted"
    assert started["labels"] == again["labels"] == over["labels"]
    assert moment_of(over["endsAt"]) == stopped[0].at


def test_what_neither_begins_nor_ends_is_no_alert(story: Story, target: Receiver) -> None:
    story.world.delete("orders")
    (deleted,) = story.look(10)
    assert deleted.name == "topic.deleted"
    sink = sink_to(story, target)
    sink.deliver([deleted])
    sink.close()
    assert target.requests == []


# -- several -----------------------------------------------------------------------------------------------


def test_all_get_it_and_one_is_enough(story: Story, target: Receiver) -> None:
    told = story.lost(2)
    with Receiver(503, 503, 200) as ill, capture_logs() as logs:
        sink = sink_to(story, ill, target)
        for _ in range(2):
            sink.deliver(told)
        sink.repeat(story.outbox)  # who was down learns of it now
        sink.close()
        assert alerts(ill)[-1] == alerts(target)[-1]
    assert len(target.requests) == 3
    assert [log["event"] for log in logs] == ["alertmanager_misses_alerts", "alertmanagers_have_all_alerts"]
    assert "answered 503" in logs[0]["error"]


def test_none_is_not(story: Story) -> None:
    told = story.lost(2)
    with Receiver(503) as one, Receiver(400) as other:
        sink = sink_to(story, one, other)
        for _ in range(3):
            with pytest.raises(DeliveryError) as failed:
                sink.deliver(told)
        sink.close()
    assert (failed.value.reason, failed.value.refused) == ("http_503", False)


def test_a_repetition_that_fails_stays_due(story: Story) -> None:
    story.lost(2)
    with Receiver(500, 200) as receiver:
        sink = sink_to(story, receiver)
        with pytest.raises(DeliveryError):
            sink.repeat(story.outbox)
        assert sink.repeat(story.outbox)
        sink.close()


@pytest.mark.parametrize(
    ("urls", "options", "why"),
    [
        ([], {}, "urls"),
        (["http://am.example.com"], {"repeat_interval": 0}, "repeat_interval"),
        (["ftp://am.example.com"], {}, "url"),
        (["http://am.example.com"], {"timeout": 0}, "timeout"),
    ],
)
def test_wrong_arguments_are_refused(urls: list[str], options: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        AlertmanagerSink(urls, **options)
