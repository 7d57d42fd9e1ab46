"""Which formats there are, and CloudEvents: one as it is, several as a batch."""

import json

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events_listeners.webhook.formats import writer_of
from tests.unit.webhook_formats.entries import BEFORE, CLOSED, OPEN, SEEN, incident, stamped, written


def test_one_cloudevent_is_sent_as_it_is() -> None:
    entry = incident("opened", OPEN)
    payload = writer_of("cloudevents")([entry])
    assert payload.body == entry.body
    assert payload.content_type == "application/cloudevents+json"


def test_several_are_a_batch() -> None:
    opened, closed = incident("opened", OPEN), incident("closed", CLOSED)
    payload = writer_of("cloudevents")([opened, closed])
    assert json.loads(payload.body) == [json.loads(opened.body), json.loads(closed.body)]
    assert payload.content_type == "application/cloudevents-batch+json"


@pytest.mark.parametrize(
    ("format", "template"),
    [("discord", None), ("", None), ("template", None), ("slack", "{{ name }}"), ("cloudevents", "")],
)
def test_a_format_that_there_is_not_is_refused(format: str, template: str | None) -> None:  # noqa: A002
    with pytest.raises(ConfigurationError, match="format"):
        writer_of(format, template=template)


@pytest.mark.parametrize("format", ["slack", "alertmanager"])
def test_the_cluster_in_numbers_concerns_no_partition(format: str) -> None:  # noqa: A002
    summary = stamped(
        ev.ClusterSummary, begin=BEFORE, end=SEEN, brokers=(), topics=2, partitions=4_711, offline=1
    )
    text = json.dumps(written(summary, format))
    assert "Cluster summary" in text
    assert "4711" not in text
