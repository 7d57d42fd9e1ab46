"""How an operator's template writes an entry for a webhook's receiver. Pure."""

import json
from typing import Final

import jinja2

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.json_text import json_in
from kafka_partition_events.outbox import Entry

LARGEST_BYTES: Final = 1024 * 1024
"""How large a rendered template may be."""


class WebhookTemplate:
    """Renders one entry at a time. Thread-safe.

    A template is the operator's, and trusted as the rest of the configuration is. It knows ``event`` (the
    CloudEvent), ``data`` (its data) and ``name`` (such as ``partition.offline``). What is written as JSON
    should pass through the filter ``tojson``. A field that is missing is an error.
    """

    def __init__(self, source: str) -> None:
        """Make it.

        Raises:
            ConfigurationError: it is no template.
        """
        environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - JSON
        environment.policies["json.dumps_function"] = json.dumps
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ConfigurationError(f"template, line {error.lineno}: {error.message}") from error

    def render(self, entry: Entry) -> bytes:
        """Return what it makes of an entry.

        Raises:
            ValueError: the entry is no CloudEvent, or the text is larger than `LARGEST_BYTES`.
            jinja2.TemplateError: it can't be rendered, for instance as a field is missing.
        """
        event = json_in(entry.body)
        if not isinstance(event, dict):
            raise ValueError("the entry is no JSON object")  # noqa: TRY004 - odd data, not a wrong argument
        body = self._template.render(event=event, data=event.get("data") or {}, name=entry.name).encode()
        if len(body) > LARGEST_BYTES:
            raise ValueError(f"the template renders more than {LARGEST_BYTES} bytes")
        return body
