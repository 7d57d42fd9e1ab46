"""How entries are written for a webhook's receiver. Pure.

Each format is a function from entries to a `Payload`; all but CloudEvents take one entry at a time.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Final

from jinja2 import TemplateSyntaxError, meta

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.events.digests import unfold
from kafka_partition_events.events.names import Severity
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.webhook.alerts import (
    annotations_of,
    fingerprint_of,
    labels_of,
    times_of,
)
from kafka_partition_events_listeners.webhook.payload import Payload, Writer
from kafka_partition_events_listeners.webhook.sandbox import Sandbox
from kafka_partition_events_listeners.webhook.teams import teams
from kafka_partition_events_listeners.webhook.wording import (
    ENDS,
    News,
    affected,
    details,
    fitting,
    headline,
    read,
    sentences,
)

FORMATS: Final = ("cloudevents", "alertmanager", "slack", "teams", "template")
"""What a receiver may understand."""


def writer_of(
    format: str,  # noqa: A002 - the word that users know
    *,
    template: str | None = None,
    receiver: str = "webhook",
    runbook_url: str | None = None,
) -> Writer:
    """Return what writes entries in a format.

    Args:
        format: One of `FORMATS`.
        template: The template's text, with ``"template"`` only.
        receiver: The receiver's name, which Alertmanager's format tells.
        runbook_url: Where it is written what to do, which the formats of Alertmanager and Teams tell.

    Raises:
        ConfigurationError: there is no such format, or the template is missing, wrong, or not asked for.
    """
    if format not in FORMATS:
        raise ConfigurationError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    if (template is None) == (format == "template"):
        raise ConfigurationError('format="template" needs template="...", and no other format takes one')
    if template is not None:
        return WebhookTemplate(template)
    writers: dict[str, Writer] = {
        "cloudevents": cloudevents,
        "alertmanager": partial(alertmanager, receiver=receiver, runbook_url=runbook_url),
        "slack": slack,
        "teams": partial(teams, runbook_url=runbook_url),
    }
    return writers[format]


def cloudevents(entries: Sequence[Entry], /) -> Payload:
    """Return one CloudEvent in structured mode, or several as a batch.

    Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md
    """
    bodies = [entry.body for entry in entries]
    if len(bodies) == 1:
        return Payload(body=bodies[0], content_type="application/cloudevents+json")
    return Payload(body=b"[" + b",".join(bodies) + b"]", content_type="application/cloudevents-batch+json")


def alertmanager(
    entries: Sequence[Entry], /, *, receiver: str = "webhook", runbook_url: str | None = None
) -> Payload:
    """Return a webhook body of Alertmanager's version 4.

    Args:
        entries: One entry.
        receiver: The name of the receiver, by which some choose what to do.
        runbook_url: Where it is written what to do, for the annotation of that name.
    """
    (entry,) = entries
    news = read(entry)
    labels, annotations = labels_of(news), annotations_of(news, runbook_url)
    # One for each partition, however they came together: its end may come with others.
    alerts = [
        {
            "status": "resolved" if news.closed else "firing",
            "labels": labels,
            "annotations": annotations,
            **times_of(news),
            "generatorURL": "",
            "fingerprint": fingerprint_of(each),
        }
        for each in map(read, unfold(entry))
    ]
    body = {
        "version": "4",
        "groupKey": f"kpe:{fingerprint_of(news)}",
        "truncatedAlerts": 0,
        "status": alerts[0]["status"],
        "receiver": receiver,
        "groupLabels": {name: labels[name] for name in ("alertname", "kafka_cluster")},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": alerts,
    }
    return Payload(body=json.dumps(body).encode(), content_type="application/json")


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


LARGEST_BYTES: Final = 256 * 1024
"""How much a template may render."""

_OPENINGS: Final = frozenset(ENDS.values())
_NAMES: Final = frozenset({"event", "data", "name", "opened", "closed"})


class WebhookTemplate:
    """Renders one entry at a time. Thread-safe.

    A template knows ``event`` (the CloudEvent), ``data`` (its data), ``name`` (such as ``incident.opened``)
    and whether it tells a beginning (``opened``) or an end (``closed``). What is written as JSON should pass
    through the filter ``tojson``. The sandbox keeps a template from Python's own objects, and from making by
    ``*``, ``**`` or ``%`` what is larger than `LARGEST_BYTES`; it does not keep it from taking long, so a
    template is as trusted as the rest of the configuration.
    """

    def __init__(self, source: str) -> None:
        """Make it.

        Args:
            source: The text of the template.

        Raises:
            ConfigurationError: it is no template, reads other templates, or uses a name that there is not.
        """
        environment = Sandbox(LARGEST_BYTES)
        try:
            parsed = environment.parse(source)
            environment.check_sums(parsed)
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigurationError(f"template, line {error.lineno}: {error.message}") from error
        if any(True for _ in meta.find_referenced_templates(parsed)):
            raise ConfigurationError("template must stand alone: it may not include, import or extend others")
        if unknown := environment.undeclared_in(parsed) - _NAMES:
            raise ConfigurationError(
                f"template uses {', '.join(sorted(unknown))}, but there is only {', '.join(sorted(_NAMES))}"
            )

    def __call__(self, entries: Sequence[Entry], /) -> Payload:
        """Return the rendered body, said to be JSON.

        Args:
            entries: One entry.

        Raises:
            ValueError: it is larger than `LARGEST_BYTES`.
            jinja2.TemplateError: it can't be rendered, for instance as a field is missing.
        """
        (entry,) = entries
        return Payload(body=self._render(read(entry)), content_type="application/json")

    def _render(self, news: News) -> bytes:
        body = bytearray()
        for piece in self._template.generate(
            event=news.event,
            data=news.data,
            name=news.name,
            opened=news.name in _OPENINGS,
            closed=news.closed,
        ):
            body += piece.encode()
            if len(body) > LARGEST_BYTES:
                raise ValueError(f"the template renders more than {LARGEST_BYTES} bytes")
        return bytes(body)
