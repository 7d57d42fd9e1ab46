"""Bodies made by a template of the operator's own (Jinja2, sandboxed)."""

from collections.abc import Sequence
from typing import Final

from jinja2 import StrictUndefined, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.webhook_news import ENDS, News, read
from kafka_partition_events_listeners.webhook_payload import Payload

LARGEST_BYTES: Final = 256 * 1024
"""How much a template may render."""

_OPENINGS: Final = frozenset(ENDS.values())
_NAMES: Final = frozenset({"event", "data", "name", "opened", "closed"})


class WebhookTemplate:
    """Renders one entry at a time. Thread-safe.

    A template knows ``event`` (the CloudEvent), ``data`` (its data), ``name`` (such as ``incident.opened``)
    and whether it tells a beginning (``opened``) or an end (``closed``). What is written as JSON should pass
    through the filter ``tojson``. The sandbox keeps a template from Python's own objects; it does not keep it
    from taking long, so a template is as trusted as the rest of the configuration.
    """

    def __init__(self, source: str) -> None:
        """Make it.

        Args:
            source: The text of the template.

        Raises:
            ConfigurationError: it is no template, reads other templates, or uses a name that there is not.
        """
        environment = ImmutableSandboxedEnvironment(
            autoescape=False,
            undefined=StrictUndefined,
            keep_trailing_newline=True,
        )
        try:
            parsed = environment.parse(source)
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigurationError(f"template, line {error.lineno}: {error.message}") from error
        if any(True for _ in meta.find_referenced_templates(parsed)):
            raise ConfigurationError("template must stand alone: it may not include, import or extend others")
        if unknown := meta.find_undeclared_variables(parsed) - _NAMES - environment.globals.keys():
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
