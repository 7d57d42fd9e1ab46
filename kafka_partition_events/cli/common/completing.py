"""What a shell completes that only a cluster knows."""

import contextlib
import io
import os
from typing import Any, Final

import typer

_PATIENCE_S: Final = 2.0


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the topics that begin so, of the cluster that the command line names; none without an answer."""
    from kafka_partition_events.cli.common.settings import ClusterOptions

    typed: dict[str, Any] = {
        name: context.params.get(name) for name in ("bootstrap", "file", "client_options")
    }
    typed["bootstrap"] = typed["bootstrap"] or os.environ.get("KPE_BOOTSTRAP_SERVERS")
    with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
        services = context.obj
        source = services.open_source(ClusterOptions(**typed).config())
        with contextlib.closing(source):
            seen = source.fetch(None, started_at=services.clock.monotonic(), timeout=_PATIENCE_S)
        return sorted(name for name in seen.topics if name.startswith(incomplete))
    return []
