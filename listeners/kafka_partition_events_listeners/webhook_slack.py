"""News as a message of Slack's incoming webhooks: a text for notifications and blocks to read. Pure.

Source: https://api.slack.com/messaging/webhooks and https://api.slack.com/reference/surfaces/formatting
"""

import json
from collections.abc import Sequence
from typing import Final

from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.vocabulary import Severity
from kafka_partition_events_listeners.webhook_news import (
    News,
    affected,
    details,
    fitting,
    headline,
    read,
    sentences,
)
from kafka_partition_events_listeners.webhook_payload import Payload

_LONGEST_LIST: Final = 2_800
"""Characters; Slack takes 3,000 in a section."""

_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def slack(entries: Sequence[Entry], /) -> Payload:
    """Return a message.

    Args:
        entries: One entry.
    """
    (entry,) = entries
    news = read(entry)
    title = f"{_colour(news)} *{_escaped(headline(news))}*"
    sections = [
        [title, *map(_escaped, sentences(news))],
        [f"• `{_escaped(line)}`" for line in affected(news)],
        [_escaped(line) for line in details(news)],
    ]
    message = {
        "text": _escaped(f"{headline(news)} ({news.cluster})"),
        "blocks": [*(_section(lines) for lines in sections if lines), _context(news)],
    }
    return Payload(body=json.dumps(message).encode(), content_type="application/json")


def _colour(news: News) -> str:
    if news.closed:
        return ":large_green_circle:"
    if news.severity >= Severity.ERROR:
        return ":red_circle:"
    return ":large_yellow_circle:" if news.severity >= Severity.WARN else ":large_blue_circle:"


def _section(lines: Sequence[str]) -> dict[str, object]:
    text = "\n".join(fitting(lines, _LONGEST_LIST))
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _context(news: News) -> dict[str, object]:
    about = [f"cluster {news.cluster}", news.name, news.data.get("incident_id") or news.event["id"]]
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": _escaped(" · ".join(about))}]}


def _escaped(text: str) -> str:
    """Return text of which Slack takes nothing for a mention or a link."""
    return text.translate(_ENTITIES)
