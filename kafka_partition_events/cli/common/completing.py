"""What a shell completes that only a cluster knows."""

import contextlib
import io
import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import typer

PATIENCE_S: Final = 2.0
"""How long a shell waits for names, in seconds."""

Names = Callable[[typer.Context, str], list[str]]


def completed(known: Callable[[typer.Context, dict[str, Any]], Iterable[str]]) -> Names:
    """Return what completes names that are known to the cluster that is typed; none without an answer."""

    def names(context: typer.Context, incomplete: str) -> list[str]:
        typed = {name: context.params.get(name) for name in ("bootstrap", "file", "client_options")}
        typed["bootstrap"] = typed["bootstrap"] or os.environ.get("KPE_BOOTSTRAP_SERVERS")
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            return sorted(name for name in known(context, typed) if name.startswith(incomplete))
        return []

    return names


@completed
def topic_names(context: typer.Context, typed: dict[str, Any]) -> Iterable[str]:
    """Return the topics of a cluster."""
    from kafka_partition_events.cli.common.settings import ClusterOptions

    services = context.obj
    with contextlib.closing(services.open_source(ClusterOptions(**typed).config())) as source:
        return list(source.fetch(None, timeout=PATIENCE_S).topics)
