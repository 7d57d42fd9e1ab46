"""What the columns of gold tables mean, for whoever looks into a catalog."""

import functools
from collections.abc import Mapping
from importlib.resources import files

import yaml
from pyspark.sql.types import StructType


def described(name: str, schema: StructType) -> StructType:
    """Return a table's columns with the comments that are known of them.

    Args:
        name: The table's, such as ``gold/skew``.
        schema: Its columns.
    """
    known = _descriptions().get(name.removeprefix("gold/"), {})
    columns = StructType()
    for field in schema:
        metadata = {**field.metadata, "comment": known[field.name]} if field.name in known else field.metadata
        columns = columns.add(field.name, field.dataType, field.nullable, metadata)
    return columns


@functools.cache
def _descriptions() -> Mapping[str, Mapping[str, str]]:
    """Return the descriptions in the dbt project of ``kpe assets``: table -> column -> text."""
    path = files("kafka_partition_events") / "assets" / "dbt" / "models" / "kpe" / "gold.yml"
    models = yaml.safe_load(path.read_text(encoding="utf-8"))["models"]
    return {
        model["name"]: {column["name"]: column["description"] for column in model["columns"]}
        for model in models
    }
