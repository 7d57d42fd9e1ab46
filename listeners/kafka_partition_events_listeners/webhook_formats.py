"""How entries are written for a webhook's receiver. Pure."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.webhook_alertmanager import alertmanager
from kafka_partition_events_listeners.webhook_payload import Payload
from kafka_partition_events_listeners.webhook_slack import slack
from kafka_partition_events_listeners.webhook_template import WebhookTemplate

FORMATS: Final = ("cloudevents", "alertmanager", "slack", "template")
"""What a receiver may understand."""

Writer = Callable[[Sequence[Entry]], Payload]
"""Writes entries; all but CloudEvents take one at a time."""


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
        runbook_url: Where it is written what to do, which Alertmanager's format tells.

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
