"""Makes what is made of types and tables: schemas of digests, the AsyncAPI document, the rules of alerts.

::

    python -m docs.generate.shipped

writes them where they ship; a test holds that they are up to date.
"""

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.resources import files as files_of
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from kafka_partition_events import assets
from kafka_partition_events.assets import schemas
from kafka_partition_events.control.protocol.topics import PREFIX
from kafka_partition_events.events.cloudevents import RECORD_HEADERS, TYPE_PREFIX
from kafka_partition_events.events.digests import FOLDED, MOST_CHANGES, Digest
from kafka_partition_events.events.names import NAMES
from kafka_partition_events.observe.alerts import CONDITION, RULES, Rule, runbook_of

DOCUMENT: Final = "asyncapi.json"
RULES_FILE: Final = "prometheus/rules.yml"

SHIPPED: Final = Path(str(files_of(assets)))
_BEGIN: Final = "the same is posted to Alertmanager\n  rules:\n"
_END: Final = "# end of what is generated\n"

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final = {str: "string", int: "integer", bool: "boolean", NoneType: "null"}
_COMMON: Final = "urn:kpe:schema:common:1#/$defs/"
_NARROWER: Final[Mapping[str, Mapping[str, Any]]] = {  # what the types cannot say
    "partitions": {"$ref": f"{_COMMON}partitions"},
    "at": {"$ref": f"{_COMMON}time"},
    "changes": {"minItems": 1, "maxItems": MOST_CHANGES},
}
_CONTROL: Final = {"command": "commands", "change": "changes", "lease": "leases"}


def digest_schema(name: str) -> Mapping[str, Any]:
    """Return the schema of the data of version 2 of an event, made of `Digest`."""
    return {"$schema": _DIALECT, "$id": f"urn:kpe:schema:{name}:2", "title": name, **_schema_of(Digest)}


def _schema_of(type_: Any) -> dict[str, Any]:
    if is_typeddict(type_):
        hints = get_type_hints(type_, include_extras=True)
        return {
            "description": type_.__doc__,
            "type": "object",
            "required": [name for name, hint in hints.items() if get_origin(hint) is not NotRequired],
            "properties": {
                name: {**_schema_of(hint), **_NARROWER.get(name, {})} for name, hint in hints.items()
            },
        }
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is None:
        return {"type": _PLAIN[type_]}
    if origin is Literal:
        return {"enum": [*arguments]}
    parts = [_schema_of(argument) for argument in arguments]
    if origin is dict:
        return {
            "type": "object",
            "required": parts[0]["enum"],
            "properties": dict.fromkeys(parts[0]["enum"], parts[1]),
        }
    if origin is list:
        return {"type": "array", "items": parts[0]}
    return {"anyOf": parts} if origin is UnionType else parts[0]


def asyncapi() -> Mapping[str, Any]:
    """Return an AsyncAPI 3 document of the topics that `kpe` writes, by their usual names."""
    known = {
        name: schema for name, schema in schemas().items() if name not in {"common", "control", "envelope"}
    }
    events = [name for name in known if name.removesuffix(".v2") in NAMES]
    channels = {"kpe.events": ("What was seen: the journal of `kpe observe`, by a Kafka sink.", events)}
    for name, topic in _CONTROL.items():
        what = f"Change control: {topic}; see docs/change-control."
        channels[f"{PREFIX}{topic}"] = (what, [f"control.{name}"])
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "kafka-partition-events",
            "version": version("kafka-partition-events"),
            "description": "Records that the observer and change control write to Kafka.",
        },
        "defaultContentType": "application/json",
        "channels": {
            topic: {
                "address": topic,
                "description": what,
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
            }
            for topic, (what, names) in channels.items()
        },
        "operations": {
            f"receive.{topic}": {"action": "receive", "channel": {"$ref": f"#/channels/{topic}"}}
            for topic in channels
        },
        "components": {"messages": {name: _message(name, schema) for name, schema in known.items()}},
    }


def _message(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    own = {"$ref": f"schemas/{name}.json"}
    if name.startswith("control."):
        return {"name": name, "title": schema["title"], "payload": own}
    type_ = {"const": f"{TYPE_PREFIX}.{name if name.endswith('.v2') else f'{name}.v1'}"}
    payload = {"allOf": [{"$ref": "schemas/envelope.json"}], "properties": {"type": type_, "data": own}}
    headers = {header: {"const": value.decode()} for header, value in RECORD_HEADERS.items()}
    return {
        "name": name,
        "title": schema["title"],
        "summary": schema.get("description", ""),
        "contentType": RECORD_HEADERS["content-type"].decode(),
        "headers": {"type": "object", "properties": headers},
        "payload": payload,
    }


def files() -> Mapping[str, str]:
    """Return what is generated: paths below ``assets`` -> text."""
    made: dict[str, Mapping[str, Any]] = {
        f"schemas/{name}.v2.json": digest_schema(name) for name in sorted(FOLDED)
    }
    texts = {
        path: json.dumps(document, indent=2) + "\n"
        for path, document in [*made.items(), (DOCUMENT, asyncapi())]
    }
    return {**texts, RULES_FILE: rules()}


def rules() -> str:
    """Return Prometheus' rules: those that ship, with the alerts of the table put in."""
    head, begin, rest = (SHIPPED / RULES_FILE).read_text(encoding="utf-8").partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    return f"{head}{begin}{rules_yaml()}{end}{tail}"


def rules_yaml() -> str:
    """Return the alerts of the table as Prometheus' rules: the body of a group, in YAML."""
    return "".join(line + "\n" for rule in RULES for line in _rule_lines(rule))


def _rule_lines(rule: Rule) -> Iterator[str]:
    by = ", ".join(filter(None, ("kafka_cluster", rule.about)))
    yield f"  - alert: {rule.name}"
    yield f'    expr: max by ({by}) ({CONDITION}{{alert="{rule.name}"}}) > 0'
    if rule.hold_s:
        yield f"    for: {rule.hold_s:g}s"
    yield "    labels:"
    yield f"      severity: {rule.severity}"
    yield "    annotations:"
    yield f"      summary: '{rule.summary}'"
    yield f"      description: '{rule.description}'"
    yield f"      runbook_url: {runbook_of(rule)}"


if __name__ == "__main__":
    for path, text in files().items():
        (SHIPPED / path).write_text(text, encoding="utf-8")
