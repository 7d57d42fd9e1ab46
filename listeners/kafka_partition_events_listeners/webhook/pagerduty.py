"""PagerDuty's Events API v2: an incident here is an alert there, from its beginning to its end.

Source: https://developer.pagerduty.com/docs/events-api-v2/trigger-events/
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import Entry, Stream
from kafka_partition_events_listeners.webhook.alerts import severity_of, subject_of
from kafka_partition_events_listeners.webhook.payload import Payload
from kafka_partition_events_listeners.webhook.sink import WebhookSink
from kafka_partition_events_listeners.webhook.wording import (
    News,
    affected,
    clipped,
    details,
    fitting,
    headline,
    read,
    sentences,
)

ENQUEUE_URL: Final = "https://events.pagerduty.com/v2/enqueue"
"""Where events go; accounts in Europe have ``events.eu.pagerduty.com``."""

_ROUTING_KEY: Final = re.compile(r"[A-Za-z0-9]{32}")
_LONGEST_SUMMARY: Final = 1_024
_LONGEST_LIST: Final = 20_000
_ACTIONS: Final[Mapping[str, str]] = {
    "incident.opened": "trigger",
    "incident.updated": "trigger",
    "incident.acknowledged": "acknowledge",
    "incident.closed": "resolve",
    "flapping.started": "trigger",
    "flapping.stopped": "resolve",
}


def pagerduty_sink(
    routing_key: str,
    *,
    name: str = "pagerduty",
    url: str = ENQUEUE_URL,
    runbook_url: str | None = None,
    **http: Any,
) -> WebhookSink:
    """Return a sink that triggers, acknowledges and resolves alerts; nothing is connected to yet.

    The ``dedup_key`` is the incident's id, so what is told again is the same alert, and an update changes no
    more than its latest details. 202 is a delivery; 429 and 5xx are tried again; 400 declines an entry, and
    the third time it is refused. What neither begins nor ends (a topic was deleted, a silence is over) pages
    nobody: it is passed over.

    Args:
        routing_key: The integration key of a service, 32 letters and digits. Told to nobody else.
        name: How configuration, metrics and logs call it.
        url: Where to post.
        runbook_url: Where it is written what to do: a link in the alert.
        http: Further arguments of `WebhookSink`, such as ``timeout``.

    Raises:
        ConfigurationError: an argument is of no use; the message names it.
    """
    if _ROUTING_KEY.fullmatch(routing_key) is None:
        raise ConfigurationError("routing_key must have 32 letters and digits: the service's integration key")
    write = partial(pagerduty, routing_key=routing_key, runbook_url=runbook_url)
    return WebhookSink(url, name=name, stream=Stream.INCIDENTS, write=write, **http)


def pagerduty(
    entries: Sequence[Entry], /, *, routing_key: str, runbook_url: str | None = None
) -> Payload | None:
    """Return an event; None for what neither begins nor ends.

    Args:
        entries: One entry.
        routing_key: The integration key.
        runbook_url: Where it is written what to do.
    """
    (entry,) = entries
    news = read(entry)
    action, key = _ACTIONS.get(news.name), subject_of(news)
    if action is None or key is None:
        return None
    event: dict[str, Any] = {"routing_key": routing_key, "event_action": action, "dedup_key": key}
    if action == "trigger":
        event |= {
            "payload": {
                "summary": clipped(f"{headline(news)} ({news.cluster})", _LONGEST_SUMMARY),
                "source": news.cluster,
                "severity": severity_of(news),
                "timestamp": news.event["time"],
                "component": " ".join(f"{kind} {name}" for kind, name in news.cause.items()) or "cluster",
                "group": news.cluster,
                "class": news.name,
                "custom_details": _details(news),
            },
            "client": "kafka-partition-events",
            "links": [] if runbook_url is None else [{"href": runbook_url, "text": "Runbook"}],
        }
    return Payload(body=json.dumps(event).encode(), content_type="application/json")


def _details(news: News) -> Mapping[str, Any]:
    lines = {
        "times": " ".join(sentences(news)),
        "partitions": "; ".join(fitting(affected(news), _LONGEST_LIST)),
        "details": "; ".join(details(news)),
    }
    return {"cluster": news.cluster, **{name: text for name, text in lines.items() if text}}
