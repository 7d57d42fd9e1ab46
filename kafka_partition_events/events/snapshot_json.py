"""JSON of snapshots: a versioned format for files. Pure.

A later version may add fields under the same ``version``; a reader passes over what it does not know.
"""

import reprlib
from datetime import datetime
from typing import Any

import attrs

from kafka_partition_events.events.codec import CodecError, cluster_of, encode, field_of, object_in
from kafka_partition_events.metadata.cluster import Cluster

FORMAT = "kpe.snapshot"
VERSION = 1


@attrs.frozen
class Snapshot:
    """A cluster as a file holds it.

    Attributes:
        cluster: What was seen.
        taken_at: When, as an aware UTC time; None where the file does not say.
    """

    cluster: Cluster
    taken_at: datetime | None = None


def encode_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as a JSON document. Topics are sorted by name, so equal clusters give equal text."""
    head = {"format": FORMAT, "version": VERSION, "taken_at": encode(snapshot.taken_at)}
    return {**head, **encode(snapshot.cluster)}


def decode_snapshot(document: object) -> Snapshot:
    """Return the snapshot that a JSON document describes.

    Raises:
        CodecError: the document is something else, or of a version that this library does not know.
    """
    top = object_in(document, "")
    if field_of(top, "", "format", str | None) != FORMAT:
        raise CodecError(f'not a snapshot: "format" is not "{FORMAT}"')
    version = field_of(top, "", "version", int)
    if version != VERSION:
        raise CodecError(
            f"snapshot version {reprlib.repr(version)} is not known here, only {VERSION}; update this library"
        )
    return Snapshot(cluster_of(top), field_of(top, "", "taken_at", datetime | None))
