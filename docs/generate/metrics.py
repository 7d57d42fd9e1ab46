"""The page of metrics, from the families that are served."""

from collections.abc import Sequence

from docs.generate.markdown import code, table
from kafka_partition_events_listeners.prometheus import families
from kafka_partition_events_listeners.prometheus.families import Family

_INTRODUCTION = """# Metrics

As `/metrics` serves them, with their `HELP`. Every series has the label `kafka_cluster` too.
[What each means, and what is missing on purpose](../observe.md#metrics);
[alerts on them](alerts.md); those of the fleet pipeline, `kpe_spark_*`, are in [its page](../fleet.md).
"""
_GROUPS: dict[str, Sequence[Family]] = {
    "The observer": families.OBSERVER,
    "The cluster": families.CLUSTER,
    "Topics": families.BY_TOPIC,
    "Listeners": families.LISTENERS,
    "Partitioners, in a producer's process": families.PARTITIONERS,
    "Outbox, sinks and alerts of `kpe observe`": (*families.PIPELINE, families.PIPELINE_ERRORS),
    "`kpe tracker`": families.TRACKER,
    "Open changes": families.OPEN_CHANGE,
}


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for title, group in _GROUPS.items():
        rows = [
            (code(family.full_name), ", ".join(map(code, family.labels)), family.help) for family in group
        ]
        parts += [f"## {title}\n", table(("metric", "labels", "help"), rows)]
    return "\n".join(parts)
