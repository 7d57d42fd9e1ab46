"""What tests of records share: validators by the schemas that ship."""

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from kafka_partition_events.assets import schemas

_KNOWN = schemas()
_REGISTRY = Registry().with_resources(
    (schema["$id"], DRAFT202012.create_resource(schema)) for schema in _KNOWN.values()
)


def validator(name: str) -> Draft202012Validator:
    """Return a validator of one of the schemas, which knows those it refers to."""
    return Draft202012Validator(_KNOWN[name], registry=_REGISTRY)
