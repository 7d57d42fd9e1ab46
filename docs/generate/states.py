"""The states of a change, for the page on change control, from the code's table."""

from collections.abc import Iterator

from kafka_partition_events.control.changes.transitions import TABLE
from kafka_partition_events.control.protocol.vocabulary import State


def table() -> Iterator[str]:
    """Yield the table as a diagram of Mermaid's, and as lines of Markdown."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield "    [*] --> requested"
    for source, target in dict.fromkeys((source, row.target) for row in TABLE for source in row.sources):
        yield f"    {source} --> {target}"
    yield from (f"    {state} --> [*]" for state in State if state.final)
    yield "```"
    yield ""
    yield "| from | to | when |"
    yield "|---|---|---|"
    for row in TABLE:
        yield f"| {', '.join(f'`{source}`' for source in row.sources)} | `{row.target}` | {row.when} |"
