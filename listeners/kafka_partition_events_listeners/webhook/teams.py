"""How entries are written for Microsoft Teams: an Adaptive Card for a workflow's webhook. Pure.

Teams' own connectors (MessageCard) are retired; the workflow "Post to a channel when a webhook request is
received" takes this. All text is in RichTextBlocks, which know no Markdown: a topic's name can't become a
link, a mention or italics.

Source: https://adaptivecards.io/explorer/AdaptiveCard.html (version 1.4),
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_partition_events.events.names import Severity
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.webhook.payload import Payload
from kafka_partition_events_listeners.webhook.wording import (
    News,
    affected,
    details,
    fitting,
    headline,
    read,
    sentences,
)

_LONGEST_LIST: Final = 6_000
"""Characters; Teams takes 28 KB in all, and a character may be several bytes."""


def teams(entries: Sequence[Entry], /, *, runbook_url: str | None = None) -> Payload:
    """Return a message with one Adaptive Card.

    Args:
        entries: One entry.
        runbook_url: Where it is written what to do; a button leads there.
    """
    (entry,) = entries
    news = read(entry)
    about = [f"cluster {news.cluster}", news.name, news.data.get("incident_id") or news.event["id"]]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [
            _text([headline(news)], color=_colour(news), weight="Bolder", size="Large"),
            *(_text(lines) for lines in (sentences(news), affected(news), details(news)) if lines),
            _text([" · ".join(about)], isSubtle=True, size="Small"),
        ],
    }
    if runbook_url is not None:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Runbook", "url": runbook_url}]
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    message = {"type": "message", "attachments": [attachment]}
    return Payload(body=json.dumps(message).encode(), content_type="application/json")


def _colour(news: News) -> str:
    if news.closed:
        return "Good"
    if news.severity >= Severity.ERROR:
        return "Attention"
    return "Warning" if news.severity >= Severity.WARN else "Accent"


def _text(lines: Sequence[str], **style: Any) -> Mapping[str, Any]:
    text = "\n".join(fitting(lines, _LONGEST_LIST))
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}
