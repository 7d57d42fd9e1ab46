"""The page of events as CloudEvents, from the schemas that ship."""

import json
from collections.abc import Mapping
from typing import Any

from docs.generate.markdown import code, table
from kafka_partition_events.assets import schemas
from kafka_partition_events.events.cloudevents import TYPE_PREFIX

_INTRODUCTION = f"""# Events as CloudEvents

What `kpe observe`, `SinkListener` and `CloudEventsListener` write is a CloudEvent 1.0. Its `type` is
`{TYPE_PREFIX}.NAME.v1` (or `.v2`), its `dataschema` the `$id` of the schema of its `data`. A later version
may add properties under the same `$id`: pass over what you do not know.
[Formats and compatibility](../formats.md) has the rules.

`kpe assets export DIRECTORY` writes all schemas, and an AsyncAPI document of the topics.
"""
_PARTS = ("common", "control", "envelope")


def page() -> str:
    """Return the page."""
    known = schemas()
    control = [name for name in known if name.startswith("control.")]
    events = [name for name in known if name not in _PARTS and name not in control]
    return "\n".join(
        [
            _INTRODUCTION,
            "## The envelope\n",
            "Its schema: [`envelope`](schemas/envelope.json).\n",
            _properties(known["envelope"]),
            "## Events\n",
            _listed(known, events),
            "## Records of change control\n",
            "These are JSON documents with a `format` and a `version`, and no CloudEvents.\n",
            _listed(known, control),
            "## Parts that several schemas share\n",
            _listed(known, _PARTS),
        ]
    )


def documents() -> Mapping[str, str]:
    """Return the schemas as files of the site, by their paths there."""
    return {
        f"reference/schemas/{name}.json": json.dumps(schema, indent=2) for name, schema in schemas().items()
    }


def _listed(known: Mapping[str, Any], names: list[str] | tuple[str, ...]) -> str:
    rows = [(f"[`{name}`](schemas/{name}.json)", known[name].get("description", "")) for name in names]
    return table(("schema", "what it says"), rows)


def _properties(schema: Mapping[str, Any]) -> str:
    required = set(schema["required"])
    rows = [
        (code(name), "yes" if name in required else "", known.get("description", ""))
        for name, known in schema["properties"].items()
    ]
    return table(("attribute", "always there", "what it is"), rows)
