"""JSON of the records of change control. Pure.

Each document names its format and its version: ``{"format": "kpe.lease", "version": 1, ...}``. Fields may be
added under the same version, and readers pass over what they do not know; whoever changes the meaning of a
field or removes one raises the version. The JSON Schemas are in `kafka_partition_events.assets`.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin

import attrs

from kafka_partition_events.control.records import Ack, Change, Command, Lease
from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events_listeners.ranges import ids_in, ranges

VERSION: Final = 1

FORMATS: Final = {Command: "kpe.command", Change: "kpe.change", Lease: "kpe.lease", Ack: "kpe.ack"}

Record = Command | Change | Lease | Ack
AnyRecord = TypeVar("AnyRecord", Command, Change, Lease, Ack)

_MOST_PARTITIONS = 1_000_000


class RecordError(KafkaPartitionEventsError, ValueError):
    """A document is no record of the format that is expected here; the message names the place."""


class UnknownVersionError(RecordError):
    """A record is of a version that this library does not know."""


class Skipped(Counter[str]):
    """Counts the records that were passed over: ``version`` (of a later library) and ``malformed``."""


def encode(record: Record) -> bytes:
    """Return a record as JSON. Equal records give equal bytes."""
    document = {"format": FORMATS[type(record)], "version": VERSION, **_plain(record)}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode(kind: type[AnyRecord], value: bytes) -> AnyRecord:
    """Return the record that JSON tells.

    Raises:
        UnknownVersionError: it is of another version.
        RecordError: it is no such record.
    """
    try:
        document = json.loads(value)
    except ValueError as error:
        raise RecordError(f"not JSON: {error}") from error
    if not isinstance(document, Mapping) or document.get("format") != FORMATS[kind]:
        raise RecordError(f'not a record of the format "{FORMATS[kind]}"')
    if document.get("version") != VERSION:
        raise UnknownVersionError(
            f"version {document.get('version')!r} of {FORMATS[kind]} is not known here, only {VERSION}"
        )
    record: AnyRecord = _read_object(kind, document, "")
    return record


def decode_or_skip(kind: type[AnyRecord], value: bytes, skipped: Skipped) -> AnyRecord | None:
    """Return the record that JSON tells; None if it tells none, which is counted."""
    try:
        return decode(kind, value)
    except UnknownVersionError:
        skipped["version"] += 1
    except RecordError:
        skipped["malformed"] += 1
    return None


def key_of(record: Record) -> str:
    """Return the key of a record in its topic, by which compaction keeps the last one."""
    match record:
        case Command():
            return record.change_id
        case Change():
            return f"{record.spec.cluster_id}|{record.change_id}"
        case Lease():
            return record.instance_id
        case Ack():
            return f"{record.change_id}|{record.instance_id}"


# -- by types ----------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return {f.name: _plain(getattr(value, f.name)) for f in attrs.fields(type(value))}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return ranges(value) if isinstance(value, frozenset) else value


Reader = Callable[[Any, str], Any]


def _read_object(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise RecordError(f"{path or 'the record'} must be an object")
    given = {}
    for name, required, read in _readers(kind):
        if name in value:
            given[name] = read(value[name], f"{path}.{name}" if path else name)
        elif required:
            raise RecordError(f"{path or 'the record'} lacks {name}")
    try:
        return kind(**given)
    except ValueError as error:
        raise RecordError(f"{path or 'the record'}: {error}") from error


@cache
def _readers(kind: Any) -> tuple[tuple[str, bool, Reader], ...]:
    return tuple((f.name, f.default is attrs.NOTHING, _reader(f.type)) for f in attrs.fields(kind))


def _reader(kind: Any) -> Reader:
    if isinstance(kind, UnionType):
        (known,) = (choice for choice in get_args(kind) if choice is not NoneType)
        read_known = _reader(known)
        return lambda value, path: None if value is None else read_known(value, path)
    if get_origin(kind) is tuple:
        read_item = _reader(get_args(kind)[0])
        return lambda value, path: tuple(
            read_item(item, f"{path}[{place}]") for place, item in enumerate(_checked(list, value, path))
        )
    if get_origin(kind) is frozenset:
        return _read_partitions
    return _scalar_reader(kind)


def _scalar_reader(kind: Any) -> Reader:
    if attrs.has(kind):
        return lambda value, path: _read_object(kind, value, path)
    if issubclass(kind, StrEnum):
        return lambda value, path: _read_word(kind, value, path)
    if kind is float:
        return lambda value, path: float(_checked((int, float), value, path))
    return lambda value, path: _checked(kind, value, path)


def _checked(kind: Any, value: Any, path: str) -> Any:
    # JSON's true is no number, whatever Python thinks.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecordError(f"{path} can't be {value!r}")
    return value


def _read_word(kind: type[StrEnum], value: Any, path: str) -> StrEnum:
    try:
        return kind(value)
    except ValueError as error:
        raise RecordError(f"{path} must be one of {', '.join(kind)}, not {value!r}") from error


def _read_partitions(value: Any, path: str) -> frozenset[int]:
    found: set[int] = set()
    try:
        for part in _checked(str, value, path).split(",") if value else ():
            first, _, last = part.partition("-")
            if not 0 <= int(first) <= int(last or first) < _MOST_PARTITIONS:
                raise ValueError(part)  # noqa: TRY301 - as int() does
            found.update(ids_in(part))
    except ValueError as error:
        raise RecordError(f"{path} must be partition ids such as 0-2,5, not {value!r}") from error
    return frozenset(found)
