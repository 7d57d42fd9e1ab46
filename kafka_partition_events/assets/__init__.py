"""What ships beside the code, as package data.

``schemas/``: JSON Schemas (2020-12) of the events. The CloudEvents attribute ``dataschema`` of an event is
the ``$id`` of the schema of its ``data``, such as ``urn:kpe:schema:partition.offline:1``. A later version may
add properties under the same ``$id``, so readers must pass over what they do not know.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_SUFFIX = ".json"


def schemas() -> Mapping[str, Mapping[str, Any]]:
    """Return the JSON Schemas by name.

    There is one for the ``data`` of each event, by the event's name; ``envelope`` for the CloudEvent around
    it; and ``common``, to which the others refer by its ``$id``.
    """
    found = (entry for entry in (files(__name__) / "schemas").iterdir() if entry.name.endswith(_SUFFIX))
    return {
        entry.name.removesuffix(_SUFFIX): json.loads(entry.read_text(encoding="utf-8"))
        for entry in sorted(found, key=lambda entry: entry.name)
    }
